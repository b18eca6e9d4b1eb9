// Looking again and again; see waiting.h.

#include "pipewright/runtime/channels/waiting.h"

#include <chrono>

namespace pipewright {
namespace {

// Waking a thread takes up to a tenth of a millisecond on a virtual machine.
// Whoever waits longer than this loses little by it.
constexpr std::chrono::milliseconds kPatience{2};
constexpr int kLooksPerClock = 64;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

bool Event::comes_soon(std::uint32_t seen) const {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if (count_.load(std::memory_order_acquire) != seen) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace pipewright
