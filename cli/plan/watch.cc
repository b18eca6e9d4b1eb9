#include "cli/plan/watch.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iostream>

#include "pipewright/base/interruption.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

constexpr double kQuietSeconds = 1;    // before the first line
constexpr double kBetweenLines = 0.1;  // seconds

// Written by a signal, read by all threads that search.
std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void on_interrupt(int) {
  const int before = errno;  // of what was interrupted
  interrupted = true;
  std::signal(SIGINT, SIG_DFL);
  errno = before;
}

}  // namespace

Error interrupted_early() {
  return bad_configuration("interrupted before a plan was found");
}

double now_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

Watch::Watch(Clock clock)
    : clock_(std::move(clock)),
      started_(now_seconds()),
      terminal_(::isatty(STDERR_FILENO) != 0) {
  std::signal(SIGINT, on_interrupt);
}

Watch::~Watch() {
  std::signal(SIGINT, SIG_DFL);
  if (shown_ > 0) std::cerr << "\r\033[K" << std::flush;
}

bool Watch::was_interrupted() { return interrupted; }

void Watch::set_task(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = prefix_ + std::move(what);
}

void Watch::set_found(const std::string& planner, Seconds step) {
  const std::lock_guard lock(mutex_);
  if (step >= best_step_) return;
  best_step_ = step;
  best_ = "; best so far: " + planner + ", " + to_text(step);
}

void Watch::set_prefix(std::string prefix) {
  const std::lock_guard lock(mutex_);
  prefix_ = std::move(prefix);
  best_.clear();
  best_step_ = Seconds::max();
}

Problem Watch::watched(const Problem& problem, Seconds limit, Seconds grace) {
  if (limit == Seconds(0)) limit = problem.budget;
  Problem watched = problem;
  const double end = clock_() + limit.value();
  const bool has_budget = limit > Seconds(0);
  const auto is_over = [this, end, has_budget](double later) {
    return was_interrupted() || (has_budget && clock_() > end + later);
  };
  watched.is_over_ = [this, is_over] {
    show();
    return is_over(0);
  };
  const std::function<bool()> is_too_late = [is_over, grace] {
    return is_over(grace.value());
  };
  watched.is_interrupted_ = was_interrupted;
  watched.estimate = [this, is_too_late,
                      estimate = problem.estimate](const Plan& plan) {
    return counted([&] { return estimate(plan); }, is_too_late);
  };
  if (problem.estimate_copies)
    watched.estimate_copies = [this, is_too_late,
                               estimate = problem.estimate_copies](
                                  const Plan& plan, const EqualGroups& groups) {
      return counted([&] { return estimate(plan, groups); }, is_too_late);
    };
  return watched;
}

Result<Estimate> Watch::counted(
    const std::function<Result<Estimate>()>& estimate,
    const std::function<bool()>& is_over) {
  if (auto counted = count(); !counted) return counted.error();
  return interruptible(is_over, estimate, []() -> Result<Estimate> {
    if (was_interrupted()) return interrupted_early();
    return bad_configuration("the budget ended before a plan was found",
                             "give more with --budget");
  });
}

Result<void> Watch::count() {
  if (was_interrupted()) return interrupted_early();
  ++estimates_;
  show();
  return {};
}

void Watch::show() {
  const double now = now_seconds();
  if (!terminal_ || now - started_ < kQuietSeconds) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || now - shown_ < kBetweenLines) return;
  shown_ = now;
  std::cerr << "\r\033[K" << what_ << ": " << with_thousands(estimates_)
            << " plans simulated, " << to_text(Seconds(now - started_)) << best_
            << "; Ctrl-C stops with the best plan so far" << std::flush;
}

}  // namespace pipewright::cli
