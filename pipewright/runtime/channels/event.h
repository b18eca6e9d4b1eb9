// How a thread waits for another one that mostly answers within microseconds:
// it polls for a while, then sleeps. Waking a sleeping thread takes longer than
// a small action.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace pipewright {

// Something that happens many times and that threads wait for. All threads that
// use an event hold the same mutex.
class Event {
 public:
  // Polling only helps where every worker has a core of its own.
  explicit Event(bool polls = false) : polls_(polls) {}

  // With the mutex held.
  void happened() {
    count_.fetch_add(1, std::memory_order_release);
    if (num_asleep_ > 0) wakes_.notify_all();
  }

  // Waits until is_met(), which is called with the lock held after each event.
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition is_met) {
    while (!is_met()) {
      const std::uint32_t seen = count_.load(std::memory_order_acquire);
      if (polls_) {
        lock.unlock();
        const bool happened = happens_soon(seen);
        lock.lock();
        if (happened) continue;
      }
      ++num_asleep_;
      wakes_.wait(
          lock, [&] { return count_.load(std::memory_order_acquire) != seen; });
      --num_asleep_;
    }
  }

 private:
  bool happens_soon(std::uint32_t seen) const;

  bool polls_;
  std::atomic<std::uint32_t> count_ = 0;
  int num_asleep_ = 0;
  std::condition_variable wakes_;
};

}  // namespace pipewright
