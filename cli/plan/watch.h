// What a command shows and obeys while planners search: a line of progress, the
// end of the budget, and Ctrl-C.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "pipewright/planners/planner.h"

namespace pipewright::cli {

double now_seconds();

// While it lives, Ctrl-C does not end the program but makes every estimate
// fail, so that planners return the best they have; a second Ctrl-C ends it.
// Shows on stderr, if that is a terminal, what is being done after a second.
class Watch {
 public:
  Watch();
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // The problem with estimators that are watched, and a clock that runs out
  // after its budget, counted from now, or on Ctrl-C.
  Problem watched(const Problem& problem);
  void doing(std::string what);
  static bool was_interrupted();

 private:
  Result<void> count();
  void show();

  std::mutex mutex_;  // of what_ and of the terminal
  std::string what_;
  std::atomic<std::int64_t> estimates_ = 0;
  double started_ = 0, shown_ = 0;
  bool terminal_ = false;
};

// What a shell answers for a program that Ctrl-C ended.
inline constexpr int kInterruptedExit = 130;

}  // namespace pipewright::cli
