// The problem that the `zero-bubble` search solves, in plain numbers.
//
// For zero_bubble*.cc only: actions are numbers here and nothing is checked
// twice, because the search evaluates an order thousands of times.

#pragma once

#include <cstdint>
#include <limits>
#include <vector>

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
  int chunks = 1;  // stages a worker: 1, or 2 in a V
  int microbatches = 1;
  std::vector<double> seconds[3];  // of each kind, per stage
  double transfer = 0;
  std::vector<int> limit;  // activations a worker may hold; from F to W

  int stages() const { return workers * chunks; }
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
    return seconds[kind_of(action)][static_cast<std::size_t>(stage_of(action))];
  }
  // The action on another stage that must be done first; -1 for none.
  int input_of(int action) const;
};

// Two stages a worker when the request has times for 2p stages, else one.
// Fails with BadConfiguration: a wrong number of times or limits, a time that
// is negative or not finite, a limit that not even one microbatch fits.
Result<Problem> problem_of(const ScheduleRequest& request);

using Order = std::vector<std::vector<int>>;  // actions by worker

Order order_of(const Problem& problem, const Orders& orders);  // B becomes I W
Orders orders_of(const Problem& problem, const Order& order);

bool fits(const Problem& problem, const Order& order);

// What an order costs: the end of the last action, and among equals the longest
// time of one worker from its first action to its last.
struct Cost {
  double makespan = std::numeric_limits<double>::infinity();
  double longest_span = std::numeric_limits<double>::infinity();
};
// Better by more than rounding.
bool is_better(const Cost& a, const Cost& b);
bool is_worse(const Cost& a, const Cost& b);

// No order costs less.
Cost lower_bound(const Problem& problem);

}  // namespace pipewright::zb
