// What would make a plan faster: changes of the cluster or the plan, each
// simulated.

#pragma once

#include <string>
#include <vector>

#include "pipewright/report/simulated_plan.h"

namespace pipewright {

struct Improvement {
  std::string what;  // "doubling the bandwidth between workers 1 and 2"
  Seconds step;
  double saved = 0;  // share of the plan's step
};

// Those that save at least 0.1 % of the step, the largest first. Tried are:
// faster links and faster devices where the critical path spends its time, all
// links, half and double the microbatch size, and, for small problems, a plan
// made anew for the same devices and for one more.
std::vector<Improvement> improvements(const SimulatedPlan& simulated);

}  // namespace pipewright
