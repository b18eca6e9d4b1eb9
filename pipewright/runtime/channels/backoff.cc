#include "pipewright/runtime/channels/backoff.h"

#include <time.h>

#include <atomic>

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

// Waking up takes tens of microseconds: most messages are there before.
constexpr auto kPollingTime = std::chrono::microseconds(200);
constexpr auto kPollingTimeOnSharedCores = std::chrono::microseconds(5);
// After that a millisecond more makes no difference.
constexpr auto kLongWait = std::chrono::seconds(1);
constexpr long kShortSleep_ns = 20'000, kLongSleep_ns = 1'000'000;

std::atomic<bool> cores_are_shared{false};

}  // namespace

void Backoff::pause() {
  if (++rounds_ == 1) since_ = Clock::now();
  const auto waited = Clock::now() - since_;
  if (waited < (cores_are_shared ? kPollingTimeOnSharedCores : kPollingTime))
    return;
  const timespec time{0, waited < kLongWait ? kShortSleep_ns : kLongSleep_ns};
  ::nanosleep(&time, nullptr);
}

void Backoff::set_cores_shared(bool are_shared) {
  cores_are_shared = are_shared;
}

}  // namespace pipewright
