// A problem that a person typed into the page of `serve`.
//
// The page may name models of the zoo and clusters in text form. It may name
// files only if the person who started the server did.

#pragma once

#include <string>
#include <vector>

#include "cli/plan/problem.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/plan/plan.h"
#include "pipewright/planners/planner.h"

namespace pipewright::cli {

// Named on the command line of `serve`.
struct ServedFiles {
  std::vector<std::string> models, profiles, clusters;
};

// All planners with all methods on one problem.
struct SearchRequest {
  ProblemOptions problem;
  std::vector<Method> methods;
  std::vector<const Planner*> planners;
};

// One plan of such a search.
struct PlanRequest {
  ProblemOptions problem;
  Plan plan;
};

// Each fails with MalformedInput, and with BadConfiguration for an unknown name
// or a file that is not in `files`. Neither looks at other files.
Result<SearchRequest> parse_search_request(std::string_view text,
                                           const ServedFiles& files);
Result<PlanRequest> parse_plan_request(std::string_view text,
                                       const ServedFiles& files);

// The command line that makes the same plan.
std::string plan_command(const ProblemOptions& problem,
                         const std::string& planner, Method method);

}  // namespace pipewright::cli
