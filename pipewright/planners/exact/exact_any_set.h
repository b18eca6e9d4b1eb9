// Placement without chains: any set of nodes on any device. A heuristic, with
// its distance from a bound; no pipeline plan follows from it, since devices
// may feed each other both ways.

#pragma once

#include "pipewright/planners/exact/exact_placement.h"

namespace pipewright {

struct AnySetSolution {
  PlacementSplit split;
  double load = 0;
  double lower_bound = 0;  // no placement is below it
  int moves = 0;           // that made the start better
};

// Moves and swaps of groups of one colour, from a split that holds every node,
// as long as one of them lowers the sum of high powers of the loads.
// Deterministic; never worse than the start. Fails as loads() does.
Result<AnySetSolution> any_set(const PlacementInstance& instance,
                               const PlacementSplit& start);

}  // namespace pipewright
