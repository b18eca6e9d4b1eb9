// What a device was given and has not done, as far as the host knows: points of
// its work, and moments of others that it waits for, in their order. It tells a
// device that hangs from one that waits for another.

#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "pipewright/plan/program/place.h"
#include "pipewright/runtime/devices/moment.h"

namespace pipewright {

struct DeviceState {
  bool is_done = true;          // with all that is known of
  bool waits = false;           // for work of another device
  std::int64_t num_passed = 0;  // of what is known: grows while it works
  Place place;  // that what it is at was given for; if it is not done
};

// state() from any thread, the rest from that of the device's worker.
class WorkLog {
 public:
  // A device is never further behind.
  static constexpr std::size_t kMaxEntries = 2048;

  // What is added from now on is for the action there.
  void begin(const Place& place) { place_ = place; }
  void add_point(MomentPointer moment) { add(std::move(moment), false); }
  void add_wait(MomentPointer moment) { add(std::move(moment), true); }

  // Asks the moments that have not passed yet.
  DeviceState state();

 private:
  struct Entry {
    MomentPointer moment;
    bool is_wait = false;
    Place place;
  };
  void add(MomentPointer moment, bool is_wait);

  Place place_;
  std::mutex mutex_;  // of what follows
  std::int64_t num_passed_ = 0;
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace pipewright
