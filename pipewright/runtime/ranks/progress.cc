#include "pipewright/runtime/ranks/progress.h"

#include <algorithm>
#include <utility>

namespace pipewright {

Progress::Progress() : start_(Clock::now()), step_start_(start_) {}

void Progress::begin(WorkerId worker, const Action& action,
                     std::int64_t microbatch, int num_microbatches) {
  const Place place = place_of(worker, action, microbatch, num_microbatches);
  const Clock::time_point time = Clock::now();
  const std::lock_guard lock(mutex_);
  if (!is_in_step_ || place.step > now_.place.step) {
    end_step(time);
    step_start_ = time;
    is_in_step_ = true;
  }
  now_.phase = Phase::Computes;
  now_.place = place;
  ++now_.count;
  ring_[num_actions_++ % kRemembered] = {
      place, Seconds(std::chrono::duration<double>(time - start_).count())};
}

void Progress::end_step(Clock::time_point time) {
  if (!std::exchange(is_in_step_, false)) return;
  now_.longest_step = std::max(
      now_.longest_step,
      Seconds(std::chrono::duration<double>(time - step_start_).count()));
}

void Progress::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  // Time between runs, such as a checkpoint's, is not part of a step.
  if (phase == Phase::Between) end_step(Clock::now());
  now_.phase = phase;
  ++now_.count;
}

void Progress::set_device_busy(bool is_busy) {
  const std::lock_guard lock(mutex_);
  is_device_busy_ = is_busy;
}

Snapshot Progress::snapshot() const {
  const std::lock_guard lock(mutex_);
  Snapshot now = now_;
  if (now.phase == Phase::Computes && is_device_busy_) now.phase = Phase::Waits;
  return now;
}

std::vector<PastAction> Progress::last_actions() const {
  const std::lock_guard lock(mutex_);
  std::vector<PastAction> actions;
  const std::size_t count = std::min(num_actions_, kRemembered);
  for (std::size_t i = num_actions_ - count; i < num_actions_; ++i)
    actions.push_back(ring_[i % kRemembered]);
  return actions;
}

}  // namespace pipewright
