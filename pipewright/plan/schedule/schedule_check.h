// The checks behind Schedule::create: is a compute order complete, and can it
// be run? For schedule.cc alone.

#pragma once

#include <optional>

#include "pipewright/base/error.h"
#include "pipewright/plan/schedule/compute_order.h"

namespace pipewright {

// The first reason why these orders are not a schedule, or nothing. Linear in
// the number of actions.
//
// It suffices to look at a run with one repetition of the body. Call b the
// minibatch (from the section's base) from which the body takes a microbatch of
// a given stage, kind and place in the minibatch. Then a run of any length is
// complete exactly if the prologue runs minibatches 0 to b - 1, the body only
// b, and the epilogue b to minibatches_outside - 1: which is what that run
// shows. And since no action waits for a later section or repetition
// (the b of what it waits for is at least its own), sections that do not
// deadlock one by one do not deadlock in a row.
std::optional<Error> fault_of(int num_stages, int num_microbatches,
                              const ScheduleSections& sections);

}  // namespace pipewright
