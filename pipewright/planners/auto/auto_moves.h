// The single changes by which auto improves a pipeline: another schedule or
// microbatch size, recompute on or off, a cut, a replica or a device moved, two
// stages joined or one parted. A move knows no clock; the simulator judges.

#pragma once

#include <vector>

#include "pipewright/planners/auto/auto_costs.h"

namespace pipewright {

using Move = std::vector<Pipeline> (*)(const Pipeline&, const AutoCosts&);

// Every kind of change, those that promise most first. Each gives all pipelines
// that are one such change away; some may be of no use (replicas that cannot
// split a microbatch), which planning them finds out.
const std::vector<Move>& auto_moves();

}  // namespace pipewright
