// The polling part of waiting; see event.h.

#include "pipewright/runtime/channels/event.h"

#include <chrono>

namespace pipewright {
namespace {

// Waking a thread takes up to 0.1 ms on a virtual machine: little to a thread
// that has waited longer than this.
constexpr std::chrono::milliseconds kEventPollingTime{2};
constexpr int kPollsPerClock = 64;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

bool Event::happens_soon(std::uint32_t seen) const {
  const auto end = std::chrono::steady_clock::now() + kEventPollingTime;
  do {
    for (int i = 0; i < kPollsPerClock; ++i) {
      if (count_.load(std::memory_order_acquire) != seen) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace pipewright
