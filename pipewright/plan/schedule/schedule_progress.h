// Can the workers of a run get to its end, or do they wait for each other? For
// schedule_check.cc alone.

#pragma once

#include <optional>

#include "pipewright/base/error.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// The deadlock, worker by worker, or nothing. F waits for F of the stage
// before, B and I for those of the stage behind; joined actions for both's. On
// a stage that several workers run together, all of them are waited for.
// `orders` is complete. Linear.
std::optional<Error> progress_fault(int num_stages, int num_microbatches,
                                    const Orders& orders);

}  // namespace pipewright
