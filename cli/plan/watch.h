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

// While a Watch exists, Ctrl-C does not end the program but makes every
// estimate fail, so that planners return their best plan so far; a second
// Ctrl-C ends the program. After one second it shows progress on stderr, if
// that is a terminal.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // The problem with estimators that count and can be interrupted, and with a
  // time limit that starts now.
  Problem watched(const Problem& problem);
  void set_task(std::string what);
  void set_prefix(std::string prefix);  // of the tasks that follow
  static bool was_interrupted();

 private:
  Result<void> count();
  // What `estimate` answers, or an error if it has to end before that.
  Result<Estimate> counted(const std::function<Result<Estimate>()>& estimate,
                           const std::function<bool()>& is_over);
  void show();

  std::mutex mutex_;  // for what_ and the terminal
  std::string prefix_, what_;
  std::atomic<std::int64_t> estimates_ = 0;
  double started_ = 0, shown_ = 0;
  bool terminal_ = false;
};

// The exit code that a shell reports for a program ended by Ctrl-C.
inline constexpr int kInterruptedExit = 130;

}  // namespace pipewright::cli
