// One planner within the time limit of a problem. Planners look at the limit
// between the parts of their own search; the estimates of plans, which take
// most of the time, are stopped here for all of them.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// After the time limit no plan is estimated, except that a planner without a
// plan that fits may estimate two more: one, and the same with recompute. Fails
// as the planner does, and with BadConfiguration if the limit ended the search
// before it found a plan; the message also has what the planner says.
Result<Planned> plan_in_time(const Planner& planner, const Problem& problem);

}  // namespace pipewright
