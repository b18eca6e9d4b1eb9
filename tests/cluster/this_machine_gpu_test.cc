// GPUs of this machine as kinds of devices. Most machines that run this have
// none: what is said then, and that the names are read.

#include "pipewright/cluster/this_machine_gpu.h"

#include <doctest/doctest.h>

#include <utility>

#include "pipewright/cluster/cluster_text.h"

namespace pipewright {
namespace {

TEST_CASE("names of GPU kinds") {
  for (const char* name :
       {"cuda", "cuda/1", "cuda/4", "cuda/64", "cuda-stream"})
    CHECK(gpu_share(name) > 0);
  for (const char* name : {"cpu", "cuda/0", "cuda/65", "cuda/", "cuda/4x",
                           "cuda/-1", "V100", "V100/4", ""})
    CHECK(gpu_share(name) == 0);
}

TEST_CASE("a share is not taken for a link between hosts") {
  const auto error_of = [](const char* text) {
    const Result<Cluster> cluster = parse_cluster_text(text);
    return cluster ? std::string() : cluster.error().to_text();
  };
  // The kind is found, or the machine has no GPU; the link is fine.
  for (const char* text : {"4xcuda/4", "4xcuda/4@100GB/s", "2xcuda/2+1xcpu",
                           "2x4xcuda/4/10GbE", "2x4xcuda/4@100GB/s/10GbE"}) {
    CAPTURE(text);
    CHECK(error_of(text).find("link") == std::string::npos);
    CHECK(error_of(text).find("unknown") == std::string::npos);
  }
  CHECK(error_of("2xV100/4").find("V100/4") != std::string::npos);
  CHECK(error_of("2x8xV100@nvlink/10GbE").empty());
}

// Rates of known GPUs, within what their data sheets round.
TEST_CASE("bfloat16 by compute capability") {
  const auto rate = [](int major, int minor, double sms, double gigahertz) {
    return bfloat16_operations(major, minor).value() * sms * gigahertz * 1e9;
  };
  CHECK(rate(8, 0, 108, 1.41) == doctest::Approx(312e12).epsilon(0.01));
  CHECK(rate(8, 6, 82, 1.695) == doctest::Approx(71e12).epsilon(0.01));
  CHECK(rate(8, 9, 128, 2.52) == doctest::Approx(165.2e12).epsilon(0.01));
  CHECK(rate(9, 0, 132, 1.83) == doctest::Approx(989e12).epsilon(0.01));
  CHECK(rate(10, 0, 148, 1.85) == doctest::Approx(2.25e15).epsilon(0.01));
  for (const std::pair<int, int>& unknown :
       {std::pair(7, 0), {7, 5}, {8, 7}, {12, 0}}) {
    CAPTURE(unknown.first);
    CHECK_FALSE(bfloat16_operations(unknown.first, unknown.second).has_value());
  }
}

TEST_CASE("base memory: the context is shared, workspaces are each worker's") {
  CHECK(gpu_base_memory(9, 1) == Bytes(1'500'000'000 + 2 * 33'554'432));
  CHECK(gpu_base_memory(9, 4) == Bytes(375'000'000 + 2 * 33'554'432));
  CHECK(gpu_base_memory(8, 1) == Bytes(1'500'000'000 + 2 * 8'519'680));
}

TEST_CASE("a share has its part of the GPU, or there is a reason") {
  const Result<GpuKind> whole = this_machine_gpu("cuda");
  if (!whole) {
    CHECK(whole.error().code == ErrorCode::BadConfiguration);
    CHECK(whole.error().to_text().find("there is none: ") != std::string::npos);
    CHECK(whole.error().hint.find("pipewright cluster ") != std::string::npos);
    return;
  }
  const GpuKind quarter = this_machine_gpu("cuda/4").value();
  CHECK(quarter.kind.name == "cuda/4");
  CHECK(quarter.kind.memory == whole->kind.memory / 4);
  CHECK(this_machine_gpu("cuda-stream", 4).value().kind.memory ==
        quarter.kind.memory);
  CHECK(whole->kind.base_memory > quarter.kind.base_memory);
  CHECK(usable_memory(quarter.kind) <
        quarter.kind.memory - quarter.kind.base_memory + Bytes(1));
  CHECK(quarter.kind.peak.at("float32").value() ==
        doctest::Approx(whole->kind.peak.at("float32").value() / 4));
  const Cluster cluster = parse_cluster_text("4xcuda/4").value();
  CHECK(cluster.num_devices() == 4);
  CHECK(cluster.kind_of(DeviceId(3)).name == "cuda/4");
}

}  // namespace
}  // namespace pipewright
