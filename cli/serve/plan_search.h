// A search as `serve` runs it: planners answer one after the other, and every
// answer gives a new ranking.

#pragma once

#include <functional>

#include "cli/plan/planning.h"
#include "cli/serve/planning_request.h"

namespace pipewright::cli {

// What the page is told after each planner: the keys of `report --compare`
// without its plans; per row also the `plan` file and the `command` that makes
// it; how many planners have answered, and of how many.
using RankingListener = std::function<void(const Json& ranking)>;

// Runs on `loaded`, which the request's problem made, with a planner per core
// at once. `is_unwanted` is asked now and then, from several threads; once it
// says yes, planners end without a plan. Calls the listener from one thread at
// a time.
void run_search(const SearchRequest& request, const LoadedProblem& loaded,
                const std::function<bool()>& is_unwanted,
                const RankingListener& listener);

// The problem, ended by its budget, which begins now, or when it is unwanted.
Problem ended_problem(const Problem& problem,
                      const std::function<bool()>& is_unwanted);

}  // namespace pipewright::cli
