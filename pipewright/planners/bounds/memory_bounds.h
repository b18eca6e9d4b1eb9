// What follows for time from memory that is too small (bounds.h).

#pragma once

#include <vector>

#include "pipewright/planners/bounds/least_times.h"

namespace pipewright {

// Seconds that links need for what passes between layers that no device can
// hold together.
double link_bound(const Problem& problem);

// Seconds of forwards, of all devices together, that have to be done again at
// that microbatch size.
double forced_recompute(const Problem& problem, int microbatch,
                        const std::vector<KindTimes>& kinds);

}  // namespace pipewright
