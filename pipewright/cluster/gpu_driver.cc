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

// Places on GPUs that copies are made between, while it lives.
class GpuDriver::Places {
 public:
  Places(const GpuDriver& driver, const std::vector<int>& gpus,
         std::int64_t bytes)
      : driver_(driver), bytes_(static_cast<std::size_t>(bytes)) {
    for (const int gpu : gpus) {
      Place& place = places_.emplace_back();
      is_done(driver.call<int(int*, int)>("cuDeviceGet", &place.device, gpu)) &&
          is_done(driver.call<int(void**, int)>(
              "cuDevicePrimaryCtxRetain", &place.context, place.device)) &&
          enter(place) &&
          is_done(driver.call<int(void**, unsigned)>(
              "cuStreamCreate", &place.stream, kOfItsOwn)) &&
          allocated(place.from) && allocated(place.to);
    }
  }
  ~Places() {
    for (const Place& place : places_) {
      if (!place.context) continue;
      driver_.call<int(void*)>("cuCtxSetCurrent", place.context);
      for (const GpuAddress memory : {place.from, place.to})
        if (memory) driver_.call<int(GpuAddress)>("cuMemFree_v2", memory);
      if (place.stream)
        driver_.call<int(void*)>("cuStreamDestroy_v2", place.stream);
      driver_.call<int(int)>("cuDevicePrimaryCtxRelease_v2", place.device);
    }
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // In the stream of the place that is copied to.
  void copy(std::size_t from, std::size_t to) {
    const Place &source = places_[from], &target = places_[to];
    enter(target) && is_done(driver_.call<int(GpuAddress, void*, GpuAddress,
                                              void*, std::size_t, void*)>(
                         "cuMemcpyPeerAsync", target.to, target.context,
                         source.from, source.context, bytes_, target.stream));
  }
  void finish() {
    for (const Place& place : places_)
      enter(place) && is_done(driver_.call<int(void*)>("cuStreamSynchronize",
                                                       place.stream));
  }
  std::size_t size() const { return places_.size(); }
  bool is_good() const { return is_good_; }  // all has worked so far

 private:
  static constexpr unsigned kOfItsOwn = 1;  // CU_STREAM_NON_BLOCKING
  struct Place {
    int device = 0;
    void *context = nullptr, *stream = nullptr;
    GpuAddress from = 0, to = 0;
  };

  bool is_done(int result) {
    is_good_ = is_good_ && result == 0;
    return is_good_;
  }
  bool enter(const Place& place) {
    return is_done(driver_.call<int(void*)>("cuCtxSetCurrent", place.context));
  }
  bool allocated(GpuAddress& memory) {
    return is_done(driver_.call<int(GpuAddress*, std::size_t)>(
        "cuMemAlloc_v2", &memory, bytes_));
  }

  const GpuDriver& driver_;
  const std::size_t bytes_;
  std::vector<Place> places_;
  bool is_good_ = true;
};

// The shortest of several rounds of copies that follow each other.
double GpuDriver::shortest(const std::vector<int>& gpus, std::int64_t bytes,
                           const std::function<void(Places&)>& copies) const {
  constexpr int kTimes = 20, kRounds = 5;
  if (!why_none_.empty()) return -1;
  Places places(*this, gpus, bytes);
  double shortest = -1;
  for (int round = 0; round < kRounds && places.is_good(); ++round) {
    places.finish();
    const double start = now_seconds();
    for (int i = 0; i < kTimes; ++i) copies(places);
    places.finish();
    const double each = (now_seconds() - start) / kTimes;
    shortest = shortest < 0 ? each : std::min(shortest, each);
  }
  return places.is_good() ? shortest : -1;
}

double GpuDriver::copy_seconds(int from, int to, std::int64_t bytes) const {
  return shortest({from, to}, bytes, [](Places& places) { places.copy(0, 1); });
}

double GpuDriver::exchange_seconds(const std::vector<int>& gpus,
                                   std::int64_t bytes) const {
  return shortest(gpus, bytes, [](Places& places) {
    for (std::size_t shift = 1; shift < places.size(); ++shift)
      for (std::size_t to = 0; to < places.size(); ++to)
        places.copy((to + shift) % places.size(), to);
  });
}

}  // namespace pipewright
