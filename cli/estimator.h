// The estimator that the commands hand to planners: lower, validate, simulate.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright::cli {

// Keeps references to both.
Estimator simulating_estimator(const Profile& profile, const Cluster& cluster);

}  // namespace pipewright::cli
