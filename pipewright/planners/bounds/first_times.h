// When the first slice of a minibatch can come to each layer: not before the
// operations that it passes first, in the least time that they take at any
// size. For lower bounds on synchronous steps.

#pragma once

#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

// Seconds from the start of the step, by layer.
struct FirstTimes {
  std::vector<double> forward_starts, forward_ends, backward_starts;
};

FirstTimes first_times(const Problem& problem);

}  // namespace pipewright
