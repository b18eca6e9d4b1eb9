// Schedules made by repeating a building block: the slots of one microbatch's
// passes on every worker. Each next microbatch follows six slots later.
//
// Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS
// 2024. The time that the block holds an activation, divided by the six slots
// between microbatches, is the number that a worker holds at once; so the shape
// of the block decides the memory. With two stages per worker in a V and
// F = I = W = 1 slot, six slots are exactly the work of one microbatch, and W
// are done in the slots that are left.
//
// Departure: the paper moves passes of the repeated blocks into earlier free
// slots. Here the order of F and I on a worker stays that of the block, all
// start as early as possible, and W run whenever nothing else can start. Memory
// and bubble are as published or better (see the tests).

#pragma once

#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The slots of microbatch 0 on one worker: F on the way down and up the V, I on
// the way back.
struct BuildingBlock {
  int forward_down, forward_up, input_up, input_down;
};

// `limit` is the number of activations that a worker may hold at once, each for
// half of the worker's layers. It is raised if the blocks need more.
Orders repeat_building_block(const std::vector<BuildingBlock>& blocks,
                             int microbatches, int limit);

}  // namespace pipewright
