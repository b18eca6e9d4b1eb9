// The best chain along one topological order, whose parts are ranges of it. For
// the first chain of the exact planner, and for improving others.

#pragma once

#include <vector>

#include "pipewright/planners/exact/downsets.h"

namespace pipewright {

// By dynamic programming over the positions of `order`. Empty if no chain fits
// with a largest load below `below`.
std::vector<ChainPart> best_along(const ChainProblem& problem,
                                  const std::vector<int>& order, double below);

// The best over all of the problem's topological_orders(). Empty if none fits.
std::vector<ChainPart> best_of_orders(const ChainProblem& problem);

}  // namespace pipewright
