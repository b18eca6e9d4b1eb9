// What `compare` ranks, for the commands that show it in another way.

#pragma once

#include <string>
#include <vector>

#include "cli/plan/planning.h"

namespace pipewright::cli {

// Of --budget: whoever asks has the answer in 10 s, with what is read before,
// and the simulation that the limit finds in progress.
inline constexpr double kComparisonSeconds = 9;
inline constexpr const char* kComparisonBudget =
    "Time limit in seconds for all planners and methods together";

// All planners with each of the methods, the fastest plan first. Without
// methods: sync, and the best plan of each asynchronous method. All share the
// problem's budget. Fails with BadConfiguration for an unknown method.
Result<std::vector<Candidate>> ranked_plans(
    const std::vector<std::string>& methods, const LoadedProblem& loaded);

// As `compare --json` prints it.
Json ranking_json(const std::vector<Candidate>& ranked,
                  const LoadedProblem& loaded);

}  // namespace pipewright::cli
