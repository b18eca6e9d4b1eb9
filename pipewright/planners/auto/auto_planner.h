// auto's search from given plans. For `compare`, which has already asked all
// planners and passes their plans.

#pragma once

#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

// The best plan that auto finds from `starts`, which are plans of this problem,
// and from its own starts. Fails with BadConfiguration if nothing fits.
Result<Planned> best_plan(const Problem& problem,
                          const std::vector<Planned>& starts);

}  // namespace pipewright
