// Replicas as people run them, for every planner: devices of different kinds
// get samples in proportion to their speed (replica_shares.h), and gradients
// are summed in buckets while backward goes on (gradient_buckets.h). Each is
// done only where the simulated step is shorter, so that no plan gets slower.
//
// Planners know nothing of it. They are given estimates of their plans with
// tuned replicas, and the plan that they return is tuned at the end.

#pragma once

#include <functional>

#include "pipewright/planners/planner.h"

namespace pipewright {

// Simulating plans on more workers takes long: a search has estimates of such
// plans as they are, and only the plan that it returns is tuned.
inline constexpr int kMaxSearchedWorkers = 64;

// Of `pipewright plan`, unless it is told otherwise.
inline constexpr Bytes kDefaultBucket{25'000'000};

// What `plan` returns for the problem, with tuned replicas as problem.bucket
// and problem.shares_by_speed ask for. Fails as `plan` does.
Result<Planned> plan_with_tuned_replicas(
    const Problem& problem,
    const std::function<Result<Planned>(const Problem&)>& plan);

// What the planner returns where nothing is said about replicas: buckets of
// kDefaultBucket, shares by speed. Fails as the planner does.
Result<Planned> default_plan(const Planner& planner, Problem problem);

// The problem with estimates of tuned plans. Those on more than 64 workers are
// of plans as they are: simulating these takes long.
Problem with_tuned_replicas(const Problem& problem);

// The plans that a search can go on with: as before they were tuned.
std::vector<Planned> untuned(const std::vector<Planned>& plans);

}  // namespace pipewright
