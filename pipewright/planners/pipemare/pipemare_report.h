// What asynchronous training costs and gains at a given number of stages:
// weights, activations and utilisation of each method, by closed forms over a
// profile.
//
// For PipeMare's planner and its experiment; the simulator counts the same for
// a program. Symbols: P stages, i = 1..P; N microbatches per minibatch.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/planners/cost_table.h"

namespace pipewright {

// How many microbatches stage i runs ahead of its own backward, which is its
// delay.
enum class Slots {
  Alternate,  // F and B in turn, as async-1f1b: P-i
  Together,   // F and B in one slot, as in the paper: 2(P-i)+1
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
  int segment = 1;  // best number of stages that recompute from one kept input
};

// ends[s] is one past the last layer of stage s. PipeMare's weights include the
// velocity that its correction needs. The copies of stash are the mean over
// time. With recompute only the first stage of a segment keeps its input for
// the whole round trip.
DepthCosts depth_costs(const CostTable& costs, const std::vector<int>& ends,
                       int num_microbatches, int optimizer_words, Slots slots);

}  // namespace pipewright
