// Estimates copies of a plan on equal groups of devices by simulating two of
// them.
//
// Copies interact only in the reduction of gradients, and until then do the
// same at the same time. So two copies behave as all copies do, once the rings
// of the reductions are timed over all copies. The result is exact (a test
// compares it with simulating all copies) where all have equally many samples.
// It is used only where groups are equal (copies.h), slices of values do not
// round differently, and no device's speed depends on what it holds. Otherwise
// all copies are simulated.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// For the current profile, cluster, minibatch, memory limit and estimator of
// the problem; all copies together are simulated by problem.estimate.
CopiesEstimator copies_estimator(const Problem& problem);

}  // namespace pipewright
