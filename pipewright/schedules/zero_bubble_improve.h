// Local search on an order: takes actions out of the runs that the longest path
// follows on one worker.
//
// For zero_bubble.cc only. Moving an action past either end of such a run is
// the only way to shorten the path (Balas, "Machine sequencing via disjunctive
// graphs", Operations Research 17, 1969); which one is chosen by a random
// stream of fixed seed, so that the answer is always the same.

#pragma once

#include "pipewright/schedules/zero_bubble_clock.h"
#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright::zb {

// The best of `tries` orders around `order`, which must fit and is the answer
// if none is better. Stops at `bound`.
Cost improve(const Problem& problem, Clock& clock, const Cost& bound, int tries,
             Order& order);

}  // namespace pipewright::zb
