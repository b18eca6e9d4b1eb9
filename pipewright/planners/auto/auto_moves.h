// The single changes by which auto improves a pipeline: another schedule or
// microbatch size; recompute on or off; a cut, a replica or a device moved; two
// stages joined, or one split in two. Moves do not estimate times; auto_search
// simulates the results.

#pragma once

#include <vector>

#include "pipewright/planners/auto/auto_costs.h"

namespace pipewright {

using Move = std::vector<Pipeline> (*)(const Pipeline&, const AutoCosts&);

// Every kind of change, the most promising first. Each returns all pipelines
// that are one such change away. Some may be invalid (too many replicas to
// split a microbatch); planning them fails.
const std::vector<Move>& auto_moves();

}  // namespace pipewright
