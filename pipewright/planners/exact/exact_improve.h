// Local improvement of a chain. A good first chain saves the exact planner
// rounds of search.

#pragma once

#include <vector>

#include "pipewright/planners/exact/downsets.h"

namespace pipewright {

// Moves single nodes between neighbouring parts, and finds the best cuts of the
// chain's own order, until neither lowers the largest load.
void improve(const ChainProblem& problem, std::vector<ChainPart>& parts);

}  // namespace pipewright
