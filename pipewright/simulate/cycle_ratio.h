// The largest ratio of weight to distance over the cycles of a graph: how often
// a system of waits that repeats can turn over.

#pragma once

#include <cstdint>
#include <vector>

namespace pipewright {

// x[to] of one repetition is at least x[from] of the repetition `distance`
// before, plus `weight`.
struct Wait {
  std::int32_t from = 0, to = 0;
  double weight = 0;
  std::int32_t distance = 0;  // may be negative; not so around a cycle
};

// The largest sum of weights by sum of distances over all cycles, or `at_least`
// if none is larger. Every cycle with a weight must have a distance above 0.
double largest_cycle_ratio(int num_nodes, std::vector<Wait> waits,
                           double at_least = 0);

}  // namespace pipewright
