// Runs that fit into the memory of a machine and of its GPUs, and runs that do
// not, by sizes that are given.

#include "pipewright/plan/memory/shared_memory.h"

#include <doctest/doctest.h>

#include "pipewright/cluster/this_machine_gpu.h"

namespace pipewright {
namespace {

using Gpus = std::vector<std::optional<int>>;

constexpr Bytes kGB(1'000'000'000);
constexpr std::optional<int> kCore;
const MachineMemory kMachine{kGB * 64, "this machine has"};

std::string error_of(const std::vector<WorkerMemory>& workers,
                     const std::vector<GpuMemory>& gpus = {}) {
  const Result<void> fits = check_shared_memory(workers, kMachine, gpus);
  if (fits) return "";
  CHECK(fits.error().code == ErrorCode::OutOfMemory);
  return fits.error().message;
}

TEST_CASE("workers on cores share the machine's memory") {
  CHECK(error_of({{0, kGB * 32}, {1, kGB * 32}}) == "");
  CHECK(error_of({{0, kGB * 32}, {1, kGB * 33}}) ==
        "the plan takes 65 GB (worker 0 32 GB, worker 1 33 GB), but this "
        "machine has 64 GB");
}

TEST_CASE("workers on one GPU share its memory, with their base memory") {
  const Bytes base = gpu_base_memory(9, 2) * 2;
  const Bytes half = (kGB * 80 - base) / 2;
  const std::vector<GpuMemory> gpus = {{kGB * 80, "A", 9}, {kGB * 40, "B", 9}};
  CHECK(error_of({{0, half, 0}, {1, half, 0}}, gpus) == "");
  CHECK(error_of({{0, half, 0}, {1, half + Bytes(1), 0}}, gpus)
            .find("of GPU 0 (worker 0 39.2 GB, worker 1 39.2 GB, 1.63 GB "
                  "beside tensors), but GPU 0 (A) has 80 GB") !=
        std::string::npos);
  // One each; the second GPU is the smaller one.
  CHECK(error_of({{0, half, 0}, {1, half - kGB * 2, 1}}, gpus) == "");
  CHECK(error_of({{0, half, 0}, {1, half, 1}}, gpus).find("GPU 1 (B) has") !=
        std::string::npos);
  CHECK(error_of({{0, kGB * 1000, 2}}, gpus) == "");
}

TEST_CASE("cores and GPUs of one plan are compared with their own memory") {
  const std::vector<GpuMemory> gpus = {{kGB * 80, "A", 9}};
  CHECK(error_of({{0, kGB * 70, 0}, {1, kGB * 60}}, gpus) == "");
  CHECK(error_of({{0, kGB * 70, 0}, {1, kGB * 65}}, gpus) ==
        "the plan takes 65 GB (worker 1 65 GB), but this machine has 64 GB");
  CHECK(error_of({{0, kGB * 80, 0}, {1, kGB * 60}}, gpus).find("GPU 0") !=
        std::string::npos);
}

TEST_CASE("which workers are on which GPU") {
  CHECK(gpus_of_workers({"cpu", "cuda", "cpu", "cuda"}) ==
        Gpus{kCore, 0, kCore, 1});
  CHECK(gpus_of_workers({"cuda/2", "cuda/2", "cuda/2", "cpu"}) ==
        Gpus{0, 0, 1, kCore});
  CHECK(gpus_of_workers({"cuda-stream", "cuda-stream"}) == Gpus{0, 0});
  // Ranks: each sees its own, or all of them see the same.
  CHECK(gpus_of_workers({"cuda", "cuda"}, {"a", "b"}) == Gpus{0, 0});
  CHECK(gpus_of_workers({"cuda", "cuda"}, {"a b", "a b"}) == Gpus{0, 1});
}

}  // namespace
}  // namespace pipewright
