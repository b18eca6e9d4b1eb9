// NVIDIA's driver, asked by the names of its functions (libcuda.so.1): a
// program that plans starts on machines without one, and needs no CUDA to be
// built.

#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

// By their numbers in CUDA's driver interface.
enum class GpuAttribute {
  ClockKilohertz = 13,
  NumSms = 16,
  MemoryClockKilohertz = 36,
  MemoryBusBits = 37,
  MajorCapability = 75,
  MinorCapability = 76,
};

class GpuDriver {
 public:
  // Of this machine; loaded once.
  static const GpuDriver& here();

  const std::string& why_none() const { return why_none_; }
  int count() const { return count_; }  // of GPUs

  // Of the first GPU.
  std::string name() const;
  Bytes memory() const;
  double attribute(GpuAttribute which) const;

  // Seconds that a copy of so many bytes takes from one GPU to another, or
  // inside of one; below 0 where it cannot be made.
  double copy_seconds(int from, int to, std::int64_t bytes) const;
  // The same in which each of these, of which some may be on one GPU, copies so
  // many bytes from each of the others, all at once.
  double exchange_seconds(const std::vector<int>& gpus,
                          std::int64_t bytes) const;

 private:
  class Places;

  GpuDriver();
  double shortest(const std::vector<int>& gpus, std::int64_t bytes,
                  const std::function<void(Places&)>& copies) const;

  // 0 is success.
  template <class Function, class... Arguments>
  int call(const char* function, Arguments... arguments) const {
    auto* found = reinterpret_cast<Function*>(::dlsym(library_, function));
    return found ? found(arguments...) : -1;
  }

  void* library_;
  int device_ = 0, count_ = 0;
  std::string why_none_;
};

}  // namespace pipewright
