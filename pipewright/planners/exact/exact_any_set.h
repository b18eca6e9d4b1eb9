// Placement without chains: any set of nodes on any device. A heuristic of our
// own, for `place`, with a lower bound. The result is no pipeline plan, because
// two devices may send to each other in both directions.

#pragma once

#include "pipewright/planners/exact/exact_placement.h"

namespace pipewright {

struct AnySetSolution {
  PlacementSplit split;
  double load = 0;
  double lower_bound = 0;  // no placement is below it
  int moves = 0;           // that improved the start
};

// Moves and swaps groups of one colour, starting from a split that holds every
// node, while that lowers the sum of high powers of the loads. Deterministic;
// never worse than the start. Fails as loads() does.
Result<AnySetSolution> any_set(const PlacementInstance& instance,
                               const PlacementSplit& start);

}  // namespace pipewright
