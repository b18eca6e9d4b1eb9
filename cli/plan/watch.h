// Watches planners while they search: shows progress, and stops them at the
// time limit or on Ctrl-C.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "pipewright/planners/planner.h"

namespace pipewright::cli {

double now_seconds();
using Clock = std::function<double()>;  // as now_seconds()

// While a Watch exists, Ctrl-C does not end the program but makes every
// estimate fail, also those of a later Watch, so that planners return their
// best plan so far; a second Ctrl-C ends the program. After one second it shows
// progress on stderr, if that is a terminal.
class Watch {
 public:
  explicit Watch(Clock clock = now_seconds);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // An estimate that began in time is ended after the limit only if it takes
  // longer than this: it may be the only plan.
  static constexpr Seconds kGrace{1};
  // The problem with estimators that count and can be interrupted, and with a
  // time limit that starts now: its budget, or less if `limit` is given. The
  // budget stays, for planners that limit their work by it: what they find does
  // not depend on the time that others took.
  Problem watched(const Problem& problem, Seconds limit = Seconds(0),
                  Seconds grace = kGrace);
  void set_task(std::string what);
  // Shown while others are searched for, if it is faster than those before it.
  void set_found(const std::string& planner, Seconds step);
  // Of the tasks that follow, which are another problem: what was found before
  // is not shown with them.
  void set_prefix(std::string prefix);
  static bool was_interrupted();
  const Clock& clock() const { return clock_; }

 private:
  Result<void> count();
  // What `estimate` answers, or an error if it has to end before that.
  Result<Estimate> counted(const std::function<Result<Estimate>()>& estimate,
                           const std::function<bool()>& is_over);
  void show();

  const Clock clock_;
  std::mutex mutex_;  // for what_, the best plan and the terminal
  std::string prefix_, what_, best_;
  Seconds best_step_ = Seconds::max();
  std::atomic<std::int64_t> estimates_ = 0;
  double started_ = 0, shown_ = 0;
  bool terminal_ = false;
};

// No plan, because of Ctrl-C.
Error interrupted_early();

// The exit code that a shell reports for a program ended by Ctrl-C.
inline constexpr int kInterruptedExit = 130;

}  // namespace pipewright::cli
