#include "pipewright/cluster/this_machine_gpu.h"

#include <dlfcn.h>

#include <array>
#include <cmath>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr int kMaxShares = 64;
constexpr double kAchievableOfGpu = 0.8;

// Attributes of a device, by their numbers in CUDA's driver interface.
enum class Attribute {
  ClockKilohertz = 13,
  NumSms = 16,
  MemoryClockKilohertz = 36,
  MemoryBusBits = 37,
  MajorCapability = 75,
  MinorCapability = 76,
};

// The first GPU, through the driver's C interface.
class GpuDriver {
 public:
  GpuDriver() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
    if (!library_) {
      why_none_ = "libcuda.so.1, the driver's library, is not found";
      return;
    }
    int count = 0;
    if (call<int(unsigned)>("cuInit", 0U) != 0 ||
        call<int(int*)>("cuDeviceGetCount", &count) != 0 || count == 0 ||
        call<int(int*, int)>("cuDeviceGet", &device_, 0) != 0)
      why_none_ = "the driver finds none";
  }

  const std::string& why_none() const { return why_none_; }
  std::string name() const {
    std::array<char, 128> text{};
    call<int(char*, int, int)>("cuDeviceGetName", text.data(),
                               static_cast<int>(text.size()) - 1, device_);
    return text.data();
  }
  Bytes memory() const {
    std::size_t bytes = 0;
    call<int(std::size_t*, int)>("cuDeviceTotalMem_v2", &bytes, device_);
    return Bytes(static_cast<std::int64_t>(bytes));
  }
  double attribute(Attribute which) const {
    int value = 0;
    call<int(int*, int, int)>("cuDeviceGetAttribute", &value,
                              static_cast<int>(which), device_);
    return value;
  }

 private:
  // 0 is success.
  template <class Function, class... Arguments>
  int call(const char* function, Arguments... arguments) const {
    auto* found = reinterpret_cast<Function*>(::dlsym(library_, function));
    return found ? found(arguments...) : -1;
  }

  void* library_;
  int device_ = 0;
  std::string why_none_;
};

// Units for float32 of one SM: 128 from capability 8.6 on, 64 before.
double lanes_of(const GpuDriver& driver) {
  const double capability = 10 * driver.attribute(Attribute::MajorCapability) +
                            driver.attribute(Attribute::MinorCapability);
  return capability >= 86 ? 128 : 64;
}

DeviceKind whole_gpu(const GpuDriver& driver) {
  DeviceKind kind;
  const double peak = 2 * lanes_of(driver) *
                      driver.attribute(Attribute::NumSms) *
                      driver.attribute(Attribute::ClockKilohertz) * 1e3;
  kind.peak["float32"] = FlopsPerSecond(peak);
  kind.achievable["float32"] = FlopsPerSecond(peak * kAchievableOfGpu);
  kind.memory = driver.memory();
  // Two transfers per clock.
  kind.memory_bandwidth =
      BytesPerSecond(2 * driver.attribute(Attribute::MemoryClockKilohertz) *
                     1e3 * driver.attribute(Attribute::MemoryBusBits) / 8);
  kind.source = driver.name() + " of this machine, as its driver describes it";
  return kind;
}

void divide(DeviceKind& kind, int share) {
  for (auto* rates : {&kind.peak, &kind.achievable})
    for (auto& [type, rate] : *rates)
      rate = FlopsPerSecond(rate.value() / share);
  kind.memory = kind.memory / share;
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

Result<GpuKind> this_machine_gpu(std::string_view name) {
  static const GpuDriver driver;
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
  return gpu;
}

}  // namespace pipewright
