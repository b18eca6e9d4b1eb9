// A plan file with its costs, as `report` shows it.

#pragma once

#include "cli/simulate/lowered_plan.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/planners/planner.h"

namespace pipewright::cli {

// The problem that the plan answers, as `plan` would have stated it. The
// argument must outlive it.
Problem problem_of(const LoweredPlan& lowered);

// A report of one plan: title and plan. Fails as load_lowered() and
// plan_report() do.
Result<Json> reported_plan(const std::string& plan_file,
                           const PlanInputs& inputs);

}  // namespace pipewright::cli
