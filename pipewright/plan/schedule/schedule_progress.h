// Can the workers of a run get to its end, or do they wait for each other? For
// schedule_check.cc alone.
//
// This is not the question that execution.h answers for a Program. Here there
// are no layers, transfers or steps yet: each stage simply follows the one
// before it. A schedule that passes can be lowered for a chain of layers, and
// the validator then agrees (schedule_progress_test.cc).

#pragma once

#include <optional>

#include "pipewright/base/error.h"
#include "pipewright/plan/schedule/compute_order.h"

namespace pipewright {

// The deadlock, worker by worker, or nothing. F waits for F of the stage
// before, B and I for those of the stage after; a joined action waits for what
// the next one needs, too. If several workers run an action together, it is
// done when all of them have done it. `orders` is complete. Linear.
std::optional<Error> progress_fault(int num_stages, int num_microbatches,
                                    const Orders& orders);

}  // namespace pipewright
