// auto beyond the interface of a planner: `compare` has asked all planners
// already and hands over their answers.

#pragma once

#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

// The best plan that auto finds from these starts, all for this problem, and
// its own. Fails like auto's plan(): nothing fits.
Result<Planned> best_plan(const Problem& problem,
                          const std::vector<Planned>& starts);

}  // namespace pipewright
