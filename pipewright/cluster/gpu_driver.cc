#include "pipewright/cluster/gpu_driver.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace pipewright {
namespace {

using GpuAddress = std::uint64_t;

double now_seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

GpuDriver::GpuDriver() : library_(::dlopen("libcuda.so.1", RTLD_NOW)) {
  if (!library_) {
    why_none_ = "libcuda.so.1, the driver's library, is not found";
    return;
  }
  if (call<int(unsigned)>("cuInit", 0U) != 0 ||
      call<int(int*)>("cuDeviceGetCount", &count_) != 0 || count_ == 0 ||
      call<int(int*, int)>("cuDeviceGet", &device_, 0) != 0)
    why_none_ = "the driver finds none";
}

const GpuDriver& GpuDriver::here() {
  static const GpuDriver driver;
  return driver;
}

std::string GpuDriver::name() const {
  std::array<char, 128> text{};
  call<int(char*, int, int)>("cuDeviceGetName", text.data(),
                             static_cast<int>(text.size()) - 1, device_);
  return text.data();
}

Bytes GpuDriver::memory() const {
  std::size_t bytes = 0;
  call<int(std::size_t*, int)>("cuDeviceTotalMem_v2", &bytes, device_);
  return Bytes(static_cast<std::int64_t>(bytes));
}

double GpuDriver::attribute(GpuAttribute which) const {
  int value = 0;
  call<int(int*, int, int)>("cuDeviceGetAttribute", &value,
                            static_cast<int>(which), device_);
  return value;
}

// The shortest of several rounds of copies that follow each other.
double GpuDriver::copy_seconds(int from, int to, std::int64_t bytes) const {
  constexpr int kCopies = 20, kRounds = 5;
  if (!why_none_.empty()) return -1;
  const std::array<int, 2> gpus = {from, to};
  std::array<void*, 2> contexts{};
  std::array<GpuAddress, 2> memory{};
  bool is_good = true;
  const auto is_done = [&](int result) {
    is_good = is_good && result == 0;
    return is_good;
  };
  for (std::size_t i = 0; i < 2 && is_good; ++i) {
    int device = 0;
    is_done(call<int(int*, int)>("cuDeviceGet", &device, gpus[i])) &&
        is_done(call<int(void**, int)>("cuDevicePrimaryCtxRetain", &contexts[i],
                                       device)) &&
        is_done(call<int(void*)>("cuCtxSetCurrent", contexts[i])) &&
        is_done(call<int(GpuAddress*, std::size_t)>(
            "cuMemAlloc_v2", &memory[i], static_cast<std::size_t>(bytes)));
  }
  double shortest = -1;
  for (int round = 0; round < kRounds && is_good; ++round) {
    const double start = now_seconds();
    for (int i = 0; i < kCopies && is_good; ++i)
      is_done(call<int(GpuAddress, void*, GpuAddress, void*, std::size_t)>(
          "cuMemcpyPeer", memory[1], contexts[1], memory[0], contexts[0],
          static_cast<std::size_t>(bytes)));
    is_done(call<int()>("cuCtxSynchronize"));
    const double each = (now_seconds() - start) / kCopies;
    shortest = shortest < 0 ? each : std::min(shortest, each);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    if (!contexts[i]) continue;
    call<int(void*)>("cuCtxSetCurrent", contexts[i]);
    if (memory[i]) call<int(GpuAddress)>("cuMemFree_v2", memory[i]);
    int device = 0;
    call<int(int*, int)>("cuDeviceGet", &device, gpus[i]);
    call<int(int)>("cuDevicePrimaryCtxRelease_v2", device);
  }
  return is_good ? shortest : -1;
}

}  // namespace pipewright
