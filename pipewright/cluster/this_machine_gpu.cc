#include "pipewright/cluster/this_machine_gpu.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"
#include "pipewright/cluster/gpu_driver.h"

namespace pipewright {
namespace {

constexpr int kMaxShares = 64;
constexpr double kAchievableOfGpu = 0.8;

// Units for float32 of one SM: 128 from capability 8.6 on, 64 before.
double lanes_of(const GpuDriver& driver) {
  const double capability =
      10 * driver.attribute(GpuAttribute::MajorCapability) +
      driver.attribute(GpuAttribute::MinorCapability);
  return capability >= 86 ? 128 : 64;
}

DeviceKind whole_gpu(const GpuDriver& driver) {
  DeviceKind kind;
  const double peak = 2 * lanes_of(driver) *
                      driver.attribute(GpuAttribute::NumSms) *
                      driver.attribute(GpuAttribute::ClockKilohertz) * 1e3;
  kind.peak["float32"] = FlopsPerSecond(peak);
  kind.achievable["float32"] = FlopsPerSecond(peak * kAchievableOfGpu);
  kind.memory = driver.memory();
  // Two transfers per clock.
  kind.memory_bandwidth =
      BytesPerSecond(2 * driver.attribute(GpuAttribute::MemoryClockKilohertz) *
                     1e3 * driver.attribute(GpuAttribute::MemoryBusBits) / 8);
  kind.source = driver.name() + " of this machine, as its driver describes it";
  return kind;
}

void divide(DeviceKind& kind, int share) {
  for (auto* rates : {&kind.peak, &kind.achievable})
    for (auto& [type, rate] : *rates)
      rate = FlopsPerSecond(rate.value() / share);
  kind.memory_bandwidth = BytesPerSecond(kind.memory_bandwidth.value() / share);
}

}  // namespace

int gpu_share(std::string_view name) {
  if (name == "cuda" || name == "cuda-stream") return 1;
  if (name.substr(0, 5) != "cuda/") return 0;
  const auto share = parse_integer(name.substr(5));
  return share && *share >= 1 && *share <= kMaxShares ? static_cast<int>(*share)
                                                      : 0;
}

// LibTorch gives each handle and stream a workspace of this size for cuBLAS,
// and one for cuBLASLt: 32 MiB from capability 9 on, 8.1 MiB before. A context
// with the kernels that training loads counts as 1.5 GB, which
// tests/runtime/devices/cuda_memory_test.cc compares with the GPU's own count.
Bytes gpu_base_memory(int major, int parts) {
  constexpr Bytes kContext(1'500'000'000);
  const Bytes workspace(major >= 9 ? 4096 * 8 * 1024
                                   : (4096 * 2 + 16 * 8) * 1024);
  return kContext / parts + workspace * 2;
}

Result<GpuKind> this_machine_gpu(std::string_view name, int num_devices) {
  const GpuDriver& driver = GpuDriver::here();
  if (!driver.why_none().empty())
    return bad_configuration(
        "\"" + std::string(name) +
            "\" is this machine's GPU, and there is none: " + driver.why_none(),
        "a cluster file can describe that of another one");
  GpuKind gpu{whole_gpu(driver), "pcie4"};
  gpu.kind.name = name;
  // A copy inside the GPU reads and writes its memory.
  if (name != "cuda")
    gpu.default_link = std::to_string(std::llround(
                           gpu.kind.memory_bandwidth.value() / 2 / 1e9)) +
                       "GB/s+4us";
  divide(gpu.kind, gpu_share(name));
  const int parts =
      name == "cuda-stream" ? std::max(num_devices, 1) : gpu_share(name);
  gpu.kind.memory = gpu.kind.memory / parts;
  gpu.kind.base_memory = gpu_base_memory(
      static_cast<int>(driver.attribute(GpuAttribute::MajorCapability)), parts);
  return gpu;
}

}  // namespace pipewright
