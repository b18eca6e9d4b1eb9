#include "pipewright/runtime/devices/device_registry.h"

#include "pipewright/cluster/this_machine_gpu.h"
#include "pipewright/plan/rank_devices.h"
#include "pipewright/runtime/devices/cpu_device.h"
#include "pipewright/runtime/devices/cuda/cuda.h"

namespace pipewright {
namespace {

Error at_worker(std::size_t worker, Error error) {
  error.where = "worker " + std::to_string(worker);
  return error;
}

Error unknown_kind(const std::string& kind) {
  return bad_configuration(
      "a device of kind " + kind +
          " is not here: workers run on cpu, cuda, cuda/N or cuda-stream",
      "train on another kind with --device");
}

// The one kind of GPU that a plan uses, and how many of its workers do.
struct GpuWorkers {
  std::string kind;
  std::size_t first = 0;
  int count = 0;
};

Result<GpuWorkers> gpu_workers(const std::vector<std::string>& kinds) {
  GpuWorkers all;
  for (std::size_t w = 0; w < kinds.size(); ++w) {
    if (kinds[w] == "cpu") continue;
    if (gpu_share(kinds[w]) == 0) return at_worker(w, unknown_kind(kinds[w]));
    if (all.count++ > 0) continue;
    all.kind = kinds[w];
    all.first = w;
  }
  const std::vector<std::string> same_gpus(kinds.size());
  if (auto one_kind = check_gpu_kinds(kinds, same_gpus); !one_kind)
    return one_kind.error();
  return all;
}

}  // namespace

Result<std::vector<std::unique_ptr<WorkerDevice>>> open_devices(
    const std::vector<std::string>& kinds, int first_gpu) {
  using Devices = std::vector<std::unique_ptr<WorkerDevice>>;
  PIPEWRIGHT_TRY(const GpuWorkers on_gpus, gpu_workers(kinds));
  Devices gpus;
  if (on_gpus.count > 0) {
    const CudaKind kind{gpu_share(on_gpus.kind), on_gpus.kind == "cuda-stream"};
    Result<Devices> opened =
        open_cuda_devices(on_gpus.kind, kind, first_gpu, on_gpus.count);
    if (!opened) return at_worker(on_gpus.first, opened.error());
    gpus = *std::move(opened);
  }
  Devices devices;
  std::size_t next = 0;
  for (const std::string& kind : kinds)
    if (kind == "cpu")
      devices.push_back(std::make_unique<CpuDevice>());
    else
      devices.push_back(std::move(gpus[next++]));
  return devices;
}

Result<void> find_devices(const std::vector<std::string>& kinds,
                          int first_gpu) {
  const auto opened = open_devices(kinds, first_gpu);
  if (!opened) return opened.error();
  return {};
}

std::string KernelChoice::to_text() const {
  std::string text;
  const auto add = [&](const std::string& part) {
    text += (text.empty() ? "" : ", ") + part;
  };
  if (tf32) add("TF32 products");
  if (is_fast) add("the fastest kernels, whose bits may change between runs");
  const std::string why = is_fused ? why_no_fused_kernels() : "";
  if (!is_fused || !why.empty())
    add("LibTorch's kernels only" + (why.empty() ? "" : ": " + why));
  if (is_workspace_config_ignored())
    add("CUBLAS_WORKSPACE_CONFIG is ignored: equal bits do not need it");
  return text;
}

void choose_kernels(const KernelChoice& choice) {
  choose_cuda_kernels(choice.tf32, choice.is_fast, choice.is_fused);
}

GpuReport gpu_report() { return cuda_report(); }

Bytes gpu_memory_in_use() { return cuda_memory_in_use(); }

}  // namespace pipewright
