// Orders of the 1F1B family: some forwards ahead, then backward and forward in
// turn, then the backwards that are left. For generators only.

#pragma once

#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The order of one stage with `warm_up` forwards ahead of its first backward
// (at least one, at most as many as there are microbatches).
std::vector<ComputeAction> warmed_up_order(StageId stage, int microbatches,
                                           int warm_up);

// One stage per worker; warm_up[i] as above.
Result<Schedule> warmed_up_schedule(int microbatches,
                                    const std::vector<int>& warm_up);

}  // namespace pipewright
