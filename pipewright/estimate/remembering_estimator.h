// An estimator that simulates no plan twice. Planners that share a problem
// often try the same plan: one stage per device, one stage on all of them, a
// plan before and after its replicas are tuned.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// What `estimate` answers, from memory where it was asked about an equal plan
// before; who made a plan does not matter. Failures are not remembered, because
// a time limit may be their cause. Copies of the result share what they
// remember, on any thread.
Estimator remembering_estimator(Estimator estimate);

// Gives the problem such an estimator, also where a planner asks for one of the
// problem's own profile, cluster and memory limit. For problems that several
// planners share.
void remember_estimates(Problem& problem);

}  // namespace pipewright
