// The estimator that planners are given: lower, validate, simulate.
//
// It stands between planners and simulate, which do not know each other; the
// commands and the tests of planners put it into a Problem.

#pragma once

#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/planner.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// A plan fits if every worker's simulated peak is within its device's memory,
// or within `memory_limit` where that is less (0: none). Keeps references to
// the profile and the cluster.
Estimator simulating_estimator(const Profile& profile, const Cluster& cluster,
                               Bytes memory_limit = Bytes(0));

// The same for a problem's profile, cluster and memory limit as they are now.
Estimator simulating_estimator(const Problem& problem);

// Sets all estimators of a problem, for its profile, cluster and memory limit
// as they are now.
void set_estimators(Problem& problem);

// How many steps the stalest stage's forwards lag behind.
double largest_delay(const ProgramFacts& facts);

// What a timeline says to a planner; sums of gradients are not in its traffic.
Estimate estimate_of(const Timeline& timeline, const Problem& limits);

}  // namespace pipewright
