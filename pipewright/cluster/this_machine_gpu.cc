#include "pipewright/cluster/this_machine_gpu.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"
#include "pipewright/cluster/gpu_driver.h"

namespace pipewright {
namespace {

constexpr int kMaxShares = 64;
constexpr double kAchievableFloat32 = 0.8, kAchievableBfloat16 = 0.5;

// Units for float32 of one SM: 128 from capability 8.6 on, 64 before.
double lanes_of(int major, int minor) {
  return 10 * major + minor >= 86 ? 128 : 64;
}

DeviceKind whole_gpu(const GpuDriver& driver) {
  DeviceKind kind;
  const int major =
      static_cast<int>(driver.attribute(GpuAttribute::MajorCapability));
  const int minor =
      static_cast<int>(driver.attribute(GpuAttribute::MinorCapability));
  const double cycles = driver.attribute(GpuAttribute::NumSms) *
                        driver.attribute(GpuAttribute::ClockKilohertz) * 1e3;
  const auto set = [&](const char* type, double operations, double achievable) {
    kind.peak[type] = FlopsPerSecond(operations * cycles);
    kind.achievable[type] = FlopsPerSecond(operations * cycles * achievable);
  };
  set("float32", 2 * lanes_of(major, minor), kAchievableFloat32);
  if (const auto operations = bfloat16_operations(major, minor))
    set("bfloat16", *operations, kAchievableBfloat16);
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

// By NVIDIA's data sheets, dense rate / (SMs x boost clock): A100 312e12 / (108
// x 1.41 GHz), RTX 3090 71e12 / (82 x 1.695 GHz), RTX 4090 165e12 / (128 x 2.52
// GHz), H100 SXM 989e12 / (132 x 1.83 GHz), B200 2.25e15 / (148 x 1.85 GHz). Of
// 8.6 and 8.9 those for work stations and servers (A40, L4, L40S) do twice as
// many.
std::optional<double> bfloat16_operations(int major, int minor) {
  switch (10 * major + minor) {
    case 80:
      return 2048;
    case 86:
    case 89:
      return 512;
    case 90:
      return 4096;
    case 100:
      return 8192;
    default:
      return std::nullopt;
  }
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
        "on the machine with the GPU run `pipewright cluster " +
            std::to_string(std::max(num_devices, 1)) + "x" + std::string(name) +
            " -o gpus.json`, and give --cluster gpus.json here");
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
