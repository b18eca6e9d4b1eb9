// Copies of a plan on equal groups of devices, estimated by simulating two.
//
// Copies never meet but in the sums of gradients, and until then do the same at
// the same time; so two of them behave as all do, once the rings are timed over
// all. That holds exactly (a test compares it with simulating all of them); it
// is used only where groups are equal (copies.h), slices of values do not round
// differently, and no device's speed depends on what it holds. Elsewhere all
// copies are simulated.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// For the problem's profile, cluster and memory limit as they are now.
CopiesEstimator copies_estimator(const Problem& problem);

}  // namespace pipewright
