#include "pipewright/runtime/ranks/progress.h"

#include <algorithm>
#include <utility>

namespace pipewright {

Progress::Progress()
    : start_(Clock::now()), run_start_(start_), step_start_(start_) {}

void Progress::begin(WorkerId worker, const Action& action,
                     std::int64_t microbatch, int num_microbatches) {
  const Place place = place_of(worker, action, microbatch, num_microbatches);
  const Clock::time_point time = Clock::now();
  const std::lock_guard lock(mutex_);
  if (!is_in_run_) {
    run_start_ = time;
    num_begun_ = 0;
  }
  // A worker may be at an older step than another one.
  if (!is_in_run_ || place.step > newest_step_) {
    if (is_in_run_) add_step(time - step_start_);
    newest_step_ = place.step;
    step_start_ = time;
    is_in_run_ = true;
    ++num_begun_;
  }
  now_.phase = Phase::Computes;
  now_.place = place;
  ++now_.count;
  ring_[num_actions_++ % kRemembered] = {
      place, Seconds(std::chrono::duration<double>(time - start_).count())};
}

void Progress::add_step(Clock::duration time) {
  now_.longest_step = std::max(
      now_.longest_step, Seconds(std::chrono::duration<double>(time).count()));
}

void Progress::enter(Phase phase) {
  const std::lock_guard lock(mutex_);
  // Time between runs, such as a checkpoint's, is not part of a step. The last
  // step of a device that is given work ahead ends with the work of all.
  if (phase == Phase::Between && std::exchange(is_in_run_, false))
    add_step((Clock::now() - run_start_) / num_begun_);
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
