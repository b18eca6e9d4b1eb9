// What the engine knows at one moment of an execution.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "pipewright/simulate/timed_code.h"

namespace pipewright {

inline constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::min();

// What is known of one message or reduction.
struct Slot {
  double time = 0;  // it is there
  double sent = 0;
  std::int32_t key = kNoKey;
};

struct Pending {
  double time;
  std::int32_t transfer, key;
};

// Sends without their receives, or receives without their sends: a queue in a
// ring that grows when it must.
class PendingQueue {
 public:
  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return tail_ - head_; }
  const Pending& operator[](std::size_t i) const {
    return ring_[(head_ + i) & (ring_.size() - 1)];
  }
  void push(const Pending& pending) {
    if (tail_ - head_ == ring_.size()) grow();
    ring_[tail_++ & (ring_.size() - 1)] = pending;
  }
  Pending pop() { return ring_[head_++ & (ring_.size() - 1)]; }

 private:
  void grow() {
    std::vector<Pending> larger(std::max<std::size_t>(8, 2 * ring_.size()));
    for (std::size_t i = head_; i != tail_; ++i)
      larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
    ring_.swap(larger);
  }
  std::vector<Pending> ring_;
  std::size_t head_ = 0, tail_ = 0;
};

struct ChannelState {
  double ready = 0;  // the next transfer starts no earlier
  PendingQueue pending;
  bool pending_are_sends = false;
  bool is_direct = true;
};

struct WorkerState {
  double clock = 0;
  double busy = 0;
  double waiting_for_link = 0;
  std::int32_t base[2] = {0, 0};  // by KeyBase
  std::int32_t next_op = 0;
  std::int32_t section = 0;
  std::int32_t repetition = 0;
  std::int32_t parked_slot = -1, parked_key = 0;  // -1: not parked
  std::int32_t parked_need = 0;
  bool is_done = false;
};

// A reduction of which some parts have been handed over, but not all.
struct OpenReduction {
  std::int32_t parts = 0;
  double time = 0;  // of the latest
};

struct EngineState {
  explicit EngineState(const TimedCode& code)
      : slots(static_cast<std::size_t>(code.num_slots)),
        reductions(code.transfers.size() -
                   static_cast<std::size_t>(code.first_reduction)),
        channels(code.channels.size()),
        workers(code.workers.size()) {}

  std::vector<Slot> slots;
  std::vector<std::map<std::int32_t, OpenReduction>> reductions;  // by key
  std::vector<ChannelState> channels;
  std::vector<WorkerState> workers;
};

}  // namespace pipewright
