// A profile on a cluster as a chain problem for the exact planner. The load of
// a stage per microbatch is the forward and backward time of its layers, and
// the transfer time of what crosses its cuts, once in each direction.

#pragma once

#include "pipewright/planners/exact/exact.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// The graph is reversed: the first part of a chain is the last stage, so that
// the number of parts before one is the number of further microbatches that
// 1F1B keeps there. Node l is layer l.
//
// All devices count as the slowest kind, with the smallest memory and the
// slowest link of the cluster. A tensor kept for backward by several layers
// counts once, for the first of them, so sizes never exceed what a stage takes.
// Fails if the profile lacks a kind of the cluster.
Result<ChainProblem> chain_problem(const Problem& problem, int microbatch);

}  // namespace pipewright
