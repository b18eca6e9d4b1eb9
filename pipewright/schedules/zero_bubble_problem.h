// The problem of the zero-bubble search, in plain numbers.
//
// For zero_bubble*.cc only. Actions are integers, because the search evaluates
// orders thousands of times.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/base/result.h"
#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/schedules/generator.h"

namespace pipewright::zb {

enum Kind : int {
  kForward = 0,
  kInput = 1,
  kWeight = 2
};

struct Problem {
  int workers = 1;
  int stages_per_worker = 1;  // 1, or 2 in a V
  int microbatches = 1;
  std::vector<double> seconds[3];  // of each kind, per stage
  double transfer = 0;
  std::vector<int> limit;  // activations per worker, from F to W

  bool is_v() const { return stages_per_worker == 2; }
  int stages() const { return workers * stages_per_worker; }
  int num_actions() const { return 3 * stages() * microbatches; }
  int worker_of(int stage) const {
    return stage < workers ? stage : 2 * workers - 1 - stage;
  }

  int action(int stage, int microbatch, int kind) const {
    return (stage * microbatches + microbatch) * 3 + kind;
  }
  int stage_of(int action) const { return action / 3 / microbatches; }
  int microbatch_of(int action) const { return action / 3 % microbatches; }
  static int kind_of(int action) { return action % 3; }
  double duration(int action) const {
    return seconds[kind_of(action)][at(stage_of(action))];
  }
  // The action on another stage that must be done first; -1 for none.
  int input_of(int action) const;
};

// Two stages per worker if the request has times for 2p stages, else one. Fails
// with BadConfiguration for a wrong number of times or limits, for times that
// are negative or not finite, and for a limit below one microbatch.
Result<Problem> problem_of(const ScheduleRequest& request);

using Order = std::vector<std::vector<int>>;  // actions by worker

Order order_of(const Problem& problem, const Orders& orders);  // B becomes I W
Orders orders_of(const Problem& problem, const Order& order);

bool fits(const Problem& problem, const Order& order);

// The cost of an order: the end of the last action, and among equals the
// longest time of one worker from its first action to its last.
struct Cost {
  double makespan = std::numeric_limits<double>::infinity();
  double longest_span = std::numeric_limits<double>::infinity();
};
// Better by more than rounding.
bool is_better(const Cost& a, const Cost& b);

// No order costs less.
Cost lower_bound(const Problem& problem);

}  // namespace pipewright::zb
