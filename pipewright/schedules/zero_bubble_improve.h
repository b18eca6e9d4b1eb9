// Local search on an order: moves actions out of the blocks of the longest
// path. A block is a maximal sequence of its actions on one worker.
//
// For zero_bubble.cc only. Only moving an action past either end of a block can
// shorten the path (Balas, "Machine sequencing via disjunctive graphs",
// Operations Research 17, 1969). The action is chosen by a random stream with a
// fixed seed, so that the result is always the same.

#pragma once

#include "pipewright/schedules/zero_bubble_clock.h"
#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright::zb {

// Improves `order`, which must fit the memory, with at most `tries` orders
// timed. Stops at `bound`. Returns the cost.
Cost improve(const Problem& problem, Clock& clock, const Cost& bound, int tries,
             Order& order);

}  // namespace pipewright::zb
