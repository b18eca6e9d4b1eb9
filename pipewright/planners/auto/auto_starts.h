// The plans of the other planners, from which auto starts.
//
// Planners that search are limited by work, not by time, so that their plans
// are the same on any machine and with any number of threads, unless the
// budget runs out.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/planners/planner.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {

using PlannerList = std::vector<const Planner*>;

// All planners but auto.
PlannerList other_planners();
// Those of a few passes over the layers.
PlannerList cheap_planners();
// Those that are worth their time for one group of a large cluster.
PlannerList quick_planners(const Problem& problem);

struct AutoRefusal {
  std::string planner;
  Error error;
};

struct AutoStarts {
  std::vector<Planned> plans;  // those that fit, in the order of planners()
  std::optional<AutoRefusal> refusal;
  std::vector<std::string> stopped;  // planners that could have searched longer
};

// Asks the planners: cheap ones first, also beyond the problem's time limit
// where that takes little time, then those that search, each with at most its
// share of the budget and not beyond the limit. Where the caller has a plan
// already, those that search are first, and none is asked beyond the limit.
// `turns` says how many such calls share the budget.
AutoStarts ask(const PlannerList& list, const Problem& problem, int turns,
               bool has_plan);

}  // namespace pipewright
