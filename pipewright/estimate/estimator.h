// The estimator that planners are given: lower, validate, simulate.
//
// It stands between planners and simulate, which do not know each other; the
// commands and the tests of planners put it into a Problem.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// A plan fits if every worker's simulated peak is within its device's memory,
// or within `memory_limit` where that is less (0: none). Keeps references to
// the profile and the cluster.
Estimator simulating_estimator(const Profile& profile, const Cluster& cluster,
                               Bytes memory_limit = Bytes(0));

// The same for a problem's profile, cluster and memory limit as they are now.
Estimator simulating_estimator(const Problem& problem);

}  // namespace pipewright
