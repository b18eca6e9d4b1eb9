// The data of `report --compare`: what `compare --json` prints, and a report of
// each of the best plans.

#pragma once

#include <string>
#include <vector>

#include "cli/plan/planning.h"
#include "cli/plan/problem.h"
#include "pipewright/base/json.h"

namespace pipewright::cli {

// "comparison" as `compare --json` prints it, "first", which "why" is about,
// and per plan whether it is on the "front": no other is both faster and
// smaller.
Json comparison_json(const std::vector<Candidate>& ranked,
                     const LoadedProblem& loaded);

// Fails as load_problem() and ranked_plans() do, and with BadConfiguration if
// no planner found a plan.
Result<Json> compared_plans(const ProblemOptions& options,
                            const std::vector<std::string>& methods);

}  // namespace pipewright::cli
