// The clock of the zero-bubble search: when the actions of an order run.
//
// For zero_bubble*.cc only. worker_spans() does the same for any Schedule; this
// class times many orders of one problem, and also computes times back from the
// end.

#pragma once

#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright::zb {

// Times of every action of an order.
struct Times {
  std::vector<double> start, end;
  // From the end of the action to the end of the last action that depends on
  // it.
  std::vector<double> tail;
  int last_action = -1;
};

// Computes Times. Keeps its memory between calls.
class Clock {
 public:
  explicit Clock(const Problem& problem);

  // Infinite if the order deadlocks.
  Cost run(const Order& order);

  // Of the last run; `tail` is empty until run_back().
  const Times& times() const { return times_; }
  void run_back(const Order& order);

  double duration(int action) const { return duration_[at(action)]; }
  // The action on another stage that `action` waits for, the one that waits for
  // it (-1: none), and the transfer time of the input.
  int input(int action) const { return input_[at(action)]; }
  int output(int action) const { return output_[at(action)]; }
  double delay(int action) const { return delay_[at(action)]; }

 private:
  Cost cost(const Order& order);

  // By action:
  std::vector<double> duration_, delay_;
  std::vector<int> input_, output_;
  std::vector<int> sleeper_;   // the worker that waits for it
  std::vector<int> sequence_;  // of the last run, in topological order
  // By worker:
  std::vector<std::size_t> next_;
  std::vector<double> clock_;
  std::vector<int> awake_;
  Times times_;
};

}  // namespace pipewright::zb
