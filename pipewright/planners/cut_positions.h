// Where planners cut models of very many layers. A search over every pair of
// layers takes seconds at a thousand layers; neighbouring cuts hardly differ.

#pragma once

#include <vector>

#include "pipewright/planners/cost_table.h"

namespace pipewright {

// Ascending, with 0 and the number of layers. Of more than `max_count` layers,
// the chain is divided into as many intervals of equal time on devices of one
// kind (or of equal numbers of layers, where a few layers take nearly all of
// the time), and of each the position with the fewest bytes crossing is used.
std::vector<int> cut_positions(const CostTable& costs, int kind, int max_count);

// How many groups of layers these divide a model into; 0: a group is a layer.
int layer_groups(const std::vector<int>& positions);

}  // namespace pipewright
