// One worker's compute actions for a run of given length, and room between them
// for what lowering adds: sends, receives, reductions, steps.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// Actions between two compute actions of a worker.
struct Gap {
  std::vector<Action> sends, receives, reduces, steps;  // in this order
};

// One worker's compute order and what goes into the gaps; gap k+1 follows
// compute action k, gap 0 precedes all.
struct WorkerOrder {
  std::vector<ComputeAction> order;
  std::vector<std::int32_t> repetition;
  // Of each compute action; lowering adds them in order.
  std::vector<std::int32_t> version;
  std::vector<ReadSetId> read_set;
  std::vector<Gap> gaps;

  int size() const { return static_cast<int>(order.size()); }
  const ComputeAction& compute(int k) const { return order[at(k)]; }
  // A joined pair is one piece: gaps lie before and after it only.
  Gap& after(int k) {
    if (k >= 0 && compute(k).joined) ++k;
    return gaps[at(k + 1)];
  }
  Gap& before(int k) { return gaps[at(first_of_pair(k))]; }
  // The action with which k starts: the one before it if they are joined.
  int first_of_pair(int k) const {
    const bool is_second = k > 0 && k < size() && compute(k - 1).joined;
    return is_second ? k - 1 : k;
  }
};

// The schedule's actions for the run, with a recompute before each backward of
// a stage that keeps only its inputs.
std::vector<WorkerOrder> worker_orders_of(const Plan& plan, int minibatches);

}  // namespace pipewright
