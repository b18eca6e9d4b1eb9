// Schedules made by repeating a building block: where one microbatch's passes
// stand on every worker, the next microbatch's six slots later.
//
// From "Pipeline Parallelism with Controllable Memory" (Qi, Wan, Amar, Lin;
// NeurIPS 2024). How long the block holds an activation, divided by the six
// slots between microbatches, is what a worker holds at once; so the block's
// shape chooses the memory. Two stages a worker in a V, F = I = W = 1 slot: six
// slots are exactly one microbatch's work, and W falls into the gaps.
//
// A departure from the paper: it moves passes of the repeated blocks into
// earlier gaps. Here the order of F and I on a worker stays the block's, all
// start as early as they can, and W is done whenever nothing else can start.
// Memory and bubble are those published or better (the tests say how much).

#pragma once

#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The slots of microbatch 0 on one worker: F on the way down and up the V, I on
// the way back.
struct BuildingBlock {
  int forward_down, forward_up, input_up, input_down;
};

// `limit`: activations a worker may hold at once, each half a worker's share of
// a microbatch. Raised by itself where the blocks cannot do with so few.
Orders repeat_building_block(const std::vector<BuildingBlock>& blocks,
                             int microbatches, int limit);

}  // namespace pipewright
