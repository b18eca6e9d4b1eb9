// What would make a plan faster: changes of the cluster or the plan, each
// simulated.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/report/simulated_plan.h"

namespace pipewright {

struct Improvement {
  std::string what;  // "doubling the bandwidth between workers 1 and 2"
  Seconds step;
  double saved = 0;  // share of the plan's step
};

// The fastest plan for the same devices of the planners that take little time;
// none where the problem is large.
std::optional<Planned> planned_anew(const SimulatedPlan& simulated);

// Those that save at least 0.1 % of the step, the largest first. Tried are:
// faster links and faster devices where the critical path spends its time, all
// links, half and double the microbatch size, the plan made anew if there is
// one, and, for small problems, a plan for one more device.
std::vector<Improvement> improvements(const SimulatedPlan& simulated,
                                      const std::optional<Planned>& anew);

}  // namespace pipewright
