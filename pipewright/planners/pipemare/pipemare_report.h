// What asynchronous training costs and gains at a depth: weights, activations
// and utilisation of each method, by closed forms over a profile.
//
// For PipeMare's planner and for tables; the simulator counts the same things
// on a program. Symbols: P stages, i = 1..P; N microbatches a minibatch.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/planners/cost_table.h"

namespace pipewright {

// How far stage i runs ahead of its own backward, and so its delay.
enum class Slots {
  Alternate,  // a worker runs F or B: P-i microbatches, as async-1f1b does
  Together,   // F and B in one slot, as the paper's machine: 2(P-i)+1
};

struct MethodCost {
  std::string name;
  Bytes weights;      // copies, gradients and optimizer state, all stages
  Bytes activations;  // kept for backward, all stages
  double utilisation = 1;
};

struct DepthCosts {
  // sync (gpipe), sync (1f1b), stash, 2bw, pipemare, pipemare + recompute.
  std::vector<MethodCost> methods;
  int segment = 1;  // stages that recompute from one kept input
};

// ends[s] is the first layer behind stage s. PipeMare's weights count the
// velocity that its correction needs. The copies of stash are the mean over
// time. Recompute segments are the best of all lengths; only a segment's first
// stage keeps its input for the whole round trip.
DepthCosts depth_costs(const CostTable& costs, const std::vector<int>& ends,
                       int num_microbatches, int optimizer_words, Slots slots);

// Bytes of activations with segments of that many stages.
Bytes recompute_bytes(const CostTable& costs, const std::vector<int>& ends,
                      int segment, Slots slots);

}  // namespace pipewright
