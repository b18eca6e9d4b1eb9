#include "pipewright/runtime/training/step_reporter.h"

#include "pipewright/base/background.h"

namespace pipewright {
namespace {

// Each report of its own would interrupt workers that have all the cores.
constexpr std::chrono::milliseconds kPause{10};

}  // namespace

StepReporter::StepReporter(int num_microbatches, int microbatch_samples,
                           Hook hook)
    : num_microbatches_(num_microbatches),
      microbatch_samples_(microbatch_samples),
      hook_(std::move(hook)),
      thread_([this] { report(); }) {}

StepReporter::~StepReporter() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  hurries_.notify_all();
  thread_.join();
}

void StepReporter::begin(std::int64_t done) {
  const std::lock_guard lock(mutex_);
  minibatches_.clear();
  done_ = done;
  last_ = Clock::now();
}

void StepReporter::add(std::int64_t microbatch, std::int32_t first,
                       std::int32_t end, double mean) {
  {
    const std::lock_guard lock(mutex_);
    Minibatch& minibatch = minibatches_[microbatch / num_microbatches_];
    minibatch.parts[{microbatch, first}] = {mean, end - first};
    minibatch.samples += end - first;
    if (minibatch.samples < num_microbatches_ * microbatch_samples_) return;
    minibatch.complete = Clock::now();
  }
  changed_.notify_all();
}

void StepReporter::wait() {
  std::unique_lock lock(mutex_);
  is_awaited_ = true;
  hurries_.notify_all();
  changed_.wait(lock, [this] {
    const auto first = minibatches_.find(done_);
    return !is_reporting_ && (first == minibatches_.end() ||
                              first->second.complete == Clock::time_point());
  });
  is_awaited_ = false;
}

// Added up in the same order as the executor does, to the same bits.
double StepReporter::mean_loss(const Minibatch& minibatch) const {
  double sum = 0, of_microbatch = 0;
  std::int64_t microbatch = -1;
  for (const auto& [place, part] : minibatch.parts) {
    if (place.first != microbatch) {
      sum += of_microbatch;
      of_microbatch = 0;
      microbatch = place.first;
    }
    of_microbatch += part.mean * part.samples / microbatch_samples_;
  }
  return (sum + of_microbatch) / num_microbatches_;
}

// The caller holds the mutex.
std::optional<StepReporter::Step> StepReporter::next_step() {
  const auto first = minibatches_.find(done_);
  if (first == minibatches_.end() ||
      first->second.complete == Clock::time_point())
    return std::nullopt;
  const Step step{
      ++done_, mean_loss(first->second),
      Seconds(std::chrono::duration<double>(first->second.complete - last_)
                  .count())};
  last_ = first->second.complete;
  minibatches_.erase(first);
  return step;
}

void StepReporter::report() {
  run_in_background();
  std::unique_lock lock(mutex_);
  while (true) {
    std::optional<Step> step;
    if (!(step = next_step())) {
      hurries_.wait_for(lock, kPause, [&] { return ends_ || is_awaited_; });
      changed_.wait(lock, [&] { return ends_ || (step = next_step()); });
    }
    if (!step) return;
    is_reporting_ = true;
    lock.unlock();
    hook_(step->step, step->loss, step->seconds);
    lock.lock();
    is_reporting_ = false;
    changed_.notify_all();
  }
}

}  // namespace pipewright
