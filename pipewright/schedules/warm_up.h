// Orders of the 1F1B family: some forwards, then backwards and forwards in
// turn, then the rest of the backwards. For generators only.

#pragma once

#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The order of one stage with `warm_up` forwards before its first backward (at
// least one, at most all microbatches).
std::vector<ComputeAction> warmed_up_order(StageId stage, int microbatches,
                                           int warm_up);

// One stage per worker; warm_up[s] is for stage s.
Result<Schedule> warmed_up_schedule(int microbatches,
                                    const std::vector<int>& warm_up);

}  // namespace pipewright
