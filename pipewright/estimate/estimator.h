// The estimators that planners are given: lower a plan, validate the program,
// simulate it.
//
// This folder connects planners/ and simulate/, which do not include each
// other. Commands and tests put the estimators into a Problem.

#pragma once

#include <functional>

#include "pipewright/planners/planner.h"
#include "pipewright/simulate/costs.h"

namespace pipewright {

// A plan fits if every worker's simulated peak is within its device's memory,
// and within `memory_limit` if that is less (0: no limit). The estimator keeps
// references to the profile and the cluster. `change`, if there is one, changes
// a program's costs before it is simulated.
Estimator simulating_estimator(const Profile& profile, const Cluster& cluster,
                               Bytes memory_limit = Bytes(0),
                               std::function<void(Costs&)> change = {});

// The same for the current profile, cluster and memory limit of a problem.
Estimator simulating_estimator(const Problem& problem);

// Sets all estimators of a problem, for its current profile, cluster and memory
// limit.
void set_estimators(Problem& problem);

}  // namespace pipewright
