// What a device was given and has not done, as far as the host knows: points of
// its work, and moments of others that it waits for, in their order. It tells a
// device that hangs from one that waits for another.

#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "pipewright/plan/program/place.h"

namespace pipewright {

// A point in the work of a device: all that it was given until then.
class Moment {
 public:
  virtual ~Moment() = default;
  virtual bool has_passed() const = 0;
  virtual void wait() const = 0;  // blocks the calling thread
};
// Null: it has passed, as always on a device that computes at once.
using MomentPointer = std::shared_ptr<const Moment>;

struct DeviceState {
  bool is_done = true;          // with all that is known of
  bool waits = false;           // for work of another device
  std::int64_t num_passed = 0;  // of what is known: grows while it works
  Place place;                  // that what it is at was given for
};

// From any threads.
class WorkLog {
 public:
  // A device is never further behind.
  static constexpr std::size_t kMaxEntries = 2048;

  // What is added from now on is for the action there.
  void begin(const Place& place);
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

  std::mutex mutex_;
  Place place_;
  std::int64_t num_passed_ = 0;
  std::deque<Entry> entries_;  // oldest first
};

}  // namespace pipewright
