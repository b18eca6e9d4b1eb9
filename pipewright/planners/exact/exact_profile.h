// A profile on a cluster as a chain problem for the exact planner: the load of
// a stage per microbatch is forward and backward of its layers, and the moving
// of what crosses its borders, once each way.

#pragma once

#include "pipewright/planners/exact/exact.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// The graph is turned round: its first part is the last stage, so that the
// number of parts before one is the number of microbatches that 1F1B keeps
// there beyond its own. Node l is layer l.
//
// All devices count as the slowest kind, with the smallest memory and the
// slowest link of the cluster. What a layer keeps for backward counts where it
// is first kept, so sizes are never above what a stage takes in the end.
// Fails if the profile lacks a kind of the cluster.
Result<ChainProblem> chain_problem(const Problem& problem, int microbatch);

}  // namespace pipewright
