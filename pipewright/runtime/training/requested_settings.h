// The settings that a request stands for: optimizer and learning rate, and how
// the method moves weights.

#pragma once

#include <cstdint>

#include "pipewright/base/result.h"
#include "pipewright/runtime/training/train_request.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

// Of PipeMare's T3, in a run of `total` steps.
std::int64_t warm_up_steps(const TrainRequest& request, std::int64_t total);

// Fails with BadConfiguration for a policy that the program cannot have, and as
// make_optimizer() and group_settings() do.
Result<TrainingSettings> requested_settings(const Model& model,
                                            const TrainRequest& request,
                                            std::int64_t total);

}  // namespace pipewright
