// How the parameters of groups are stepped, by the optimizer and learning rate
// that a request asks for.

#pragma once

#include <cstdint>
#include <map>

#include "pipewright/base/result.h"
#include "pipewright/runtime/training/train_request.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

// In a run of `total` steps. Fails as groups_of() and make_optimizer() do.
Result<std::map<ParameterId, StepSettings>> group_settings(
    const Model& model, const TrainRequest& request, std::int64_t total);

}  // namespace pipewright
