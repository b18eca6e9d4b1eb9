// Times that too little memory forces on every plan, for the lower bounds of
// bounds.h: transfers between layers that no device can hold together, and
// forwards that must be repeated.

#pragma once

#include <vector>

#include "pipewright/planners/bounds/least_times.h"

namespace pipewright {

// Seconds that links need for what passes between layers that no single device
// can hold.
double link_bound(const Problem& problem);

// Seconds of forwards that must be recomputed at that microbatch size, on all
// devices together.
double forced_recompute(const Problem& problem, int microbatch,
                        const std::vector<KindTimes>& kinds);

}  // namespace pipewright
