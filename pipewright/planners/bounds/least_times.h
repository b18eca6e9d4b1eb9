// The least that layers can cost, on one kind of device at any size: what lower
// bounds are made of.

#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct LeastTimes {
  double forward = std::numeric_limits<double>::infinity();   // per sample
  double backward = std::numeric_limits<double>::infinity();  // per sample
  double update = std::numeric_limits<double>::infinity();    // per step
};
using KindTimes = std::vector<LeastTimes>;  // by layer

int largest_microbatch(const Problem& problem);

// Index of the kind in the cluster.
KindTimes least_times(const Problem& problem, int kind);

// Calls visit(layer, times, size) at the sizes from `least` to `most` at which
// time per sample can be least.
void for_telling_times(
    const Problem& problem, int kind, int least, int most,
    const std::function<void(std::size_t, const LayerTimes&, int)>& visit);

// Bytes of each layer's output, and of its gradient, per sample: the least at
// any size, and less than that by what rounding slices of it may take.
std::vector<double> least_output_bytes(const Problem& problem);

}  // namespace pipewright
