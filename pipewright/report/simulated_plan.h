// A plan with everything that a report says about it: lowered, validated, timed
// and simulated with spans. The parts of a report are made from it.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/planner.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/timeline/critical_path.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct SimulatedPlan {
  const Plan& plan;
  const Problem& problem;  // profile, cluster, memory limit, estimators
  Program program;
  ProgramFacts facts;
  Costs costs;
  Timeline timeline;
  std::vector<PathPiece> path;

  const Cluster& cluster() const { return *problem.cluster; }
  const Profile& profile() const { return *problem.profile; }
};

// Both arguments must outlive the result. Fails as lower(), validate() and
// costs_of() do, and with BadConfiguration for a program of more than four
// million actions.
Result<SimulatedPlan> simulated_plan(const Plan& plan, const Problem& problem);

}  // namespace pipewright
