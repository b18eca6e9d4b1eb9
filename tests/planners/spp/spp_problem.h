// The planning problem of SPP's tests: microbatches of eight samples,
// simulated.

#pragma once

#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// Profile and cluster must outlive the problem.
inline Problem spp_problem(const Profile& profile, const Cluster& cluster,
                           int microbatches) {
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = 8 * microbatches;
  problem.microbatches = {8};
  problem.estimate = simulating_estimator(problem);
  return problem;
}

}  // namespace pipewright
