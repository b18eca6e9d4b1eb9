// How a thread waits for another one that mostly answers within microseconds:
// it looks again and again for a while, then sleeps. Waking a sleeping thread
// takes longer than a small action.

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace pipewright {

// Counts events of one kind. Whoever waits for a condition that events bring
// about holds the event's mutex while it looks.
class Event {
 public:
  // Looking again and again serves only where every worker has a core.
  explicit Event(bool spins = false) : spins_(spins) {}

  // With the mutex held.
  void happened() {
    count_.fetch_add(1, std::memory_order_release);
    if (num_asleep_ > 0) wakes_.notify_all();
  }

  // Waits until is_met(), which is called with the lock held.
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition is_met) {
    while (!is_met()) {
      const std::uint32_t seen = count_.load(std::memory_order_acquire);
      if (spins_) {
        lock.unlock();
        const bool came = comes_soon(seen);
        lock.lock();
        if (came) continue;
      }
      ++num_asleep_;
      wakes_.wait(
          lock, [&] { return count_.load(std::memory_order_acquire) != seen; });
      --num_asleep_;
    }
  }

 private:
  bool comes_soon(std::uint32_t seen) const;

  bool spins_;
  std::atomic<std::uint32_t> count_ = 0;
  int num_asleep_ = 0;
  std::condition_variable wakes_;
};

}  // namespace pipewright
