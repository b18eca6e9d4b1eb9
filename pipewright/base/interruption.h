// Long computations that may have to end in the middle: lowering and simulating
// a plan of a hundred thousand layers takes seconds, and Ctrl-C or a time limit
// should not wait for it.
//
//   const Result<Estimate> estimate = interruptible(
//       is_over, [&] { return estimate_of(plan); }, [] { return error; });
//
// What runs inside calls interruption_point() now and then. Nothing here knows
// clocks or signals; each thread is on its own.

#pragma once

#include <functional>
#include <utility>

namespace pipewright {

// Thrown by interruption_point(); caught by interruptible() alone.
struct Interruption {};

// Throws if the innermost interruptible() of this thread is over; without one
// it does nothing.
void interruption_point();

// While this object lives, `is_over` is asked at this thread's interruption
// points.
class InterruptionScope {
 public:
  explicit InterruptionScope(const std::function<bool()>& is_over);
  ~InterruptionScope();
  InterruptionScope(const InterruptionScope&) = delete;
  InterruptionScope& operator=(const InterruptionScope&) = delete;

 private:
  const std::function<bool()>* const before_;
};

// The answer of `work`, or of `otherwise` if it was interrupted.
template <typename Work, typename Otherwise>
auto interruptible(const std::function<bool()>& is_over, Work&& work,
                   Otherwise&& otherwise) -> decltype(work()) {
  try {
    const InterruptionScope scope(is_over);
    return work();
  } catch (const Interruption&) {
    return otherwise();
  }
}

}  // namespace pipewright
