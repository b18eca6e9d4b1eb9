// A lower bound on the step of synchronous plans from the sizes of slices: the
// samples of a microbatch that one action of one replica computes.
//
// A sample s is in a slice of b(s,o) samples at each operation o (a layer's
// forward or backward), and operation o on b samples takes t(o,b).
//
//   path   The sample passes the operations of a path one after the other, so
//          T >= sum over o on the path of t(o, b(s,o)). Large slices take long.
//   work   All slices together take at most the time of all D devices:
//          D T >= sum over o and s of t(o, b(s,o)) / b(s,o). Small slices cost
//          more per sample.
//
// The mean of the first over all N samples, times p, and the second divided by
// D, times 1 - p, give for every p between 0 and 1
//
//   T >= sum over o of min over b of p t(o,b) + (1 - p) N/D t(o,b)/b,
//
// where the first term counts only for operations on the path, with the part of
// a backward that the layers before wait for. p = 0 is the bound by work alone.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// Seconds.
double slice_bound(const Problem& problem);

}  // namespace pipewright
