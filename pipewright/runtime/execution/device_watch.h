// Finds a device that hangs while a run is in progress: it has work, waits for
// no other device, and gets no further within the limit. Nobody can end such
// work, so the process has to.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

class DeviceWatch {
 public:
  struct Watched {
    WorkerId worker;
    WorkerDevice* device = nullptr;
  };

  // Of those that keep a log; `stalls` and all devices outlive the watch.
  DeviceWatch(std::vector<Watched> watched, const StallHooks& stalls);
  ~DeviceWatch();

 private:
  using Clock = std::chrono::steady_clock;
  struct Seen {
    std::int64_t num_passed = -1;
    Clock::time_point since;  // it has not changed, or was not its to change
  };

  void watch();
  // Whether it is busy.
  bool look(const Watched& watched, Seen& seen) const;

  const std::vector<Watched> watched_;
  const StallHooks& stalls_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace pipewright
