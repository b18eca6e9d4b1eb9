// The devices on which a request's workers train and evaluate.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

// Whether this process has all workers.
bool is_alone(const TrainRequest& request);

// Those that the plan names for the workers of this process. A plan that names
// none is for cores. Fails as open_devices() does: what was found here when the
// request was made may be gone.
Result<Executor::Devices> requested_devices(const TrainRequest& request);

// Rank 0 evaluates alone: all workers on its own GPU. Fails as open_devices()
// does.
Result<Executor::Devices> evaluation_devices(const TrainRequest& request);

}  // namespace pipewright
