// How many devices a pipeline needs for its memory, by a formula. For error
// messages, and where the search for the exact number starts
// (fewest_devices.h). Knows no planner and simulates nothing.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// The fewest devices on which a pipeline of one stage per device fits, at the
// smallest microbatch size. Each device has as much memory as the smallest of
// the cluster. Counted are weights, gradients and optimizer state, the
// activations that 1F1B keeps, and buffers. 0 if a single layer is too large.
int devices_needed(const Problem& problem, bool recompute);

}  // namespace pipewright
