// What the report page shows of one plan, as one JSON object: a summary in
// words, the simulated timeline with dependencies and critical path, memory
// over time, the model along its cuts, the cluster and what its links carry,
// what would make the plan faster, and its distance to the lower bound.
//
// The page (web/) draws these numbers and computes none of its own. The keys
// are in docs/reference/commands/report.md.

#pragma once

#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// What every report begins with. The page has `plans` to show, and what is
// added to it: a comparison or a run.
Json report_of(const std::string& title, Json::Array plans);

// The problem's estimators must be set. `why` says why this plan was chosen; if
// empty, it is compared with what quick planners find. Fails as
// simulated_plan() does.
Result<Json> plan_report(const Plan& plan, const Problem& problem,
                         const std::string& why = "");

}  // namespace pipewright
