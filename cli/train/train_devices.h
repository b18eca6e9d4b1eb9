// Which devices a run computes on: those that the plan names, or those that
// the user names instead.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/runtime/ranks/launch.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright::cli {

// The GPUs that each rank sees, as text; empty if there is one rank. Every rank
// has to call it.
std::vector<std::string> gpus_of_ranks(Launch& launch);

// Gives each worker of the plan a kind of device: `asked`, or, where that is
// empty, the plan's own, or, where the plan names none, cpu, and says so. Ranks
// that see the same GPUs divide them among each other, in ascending order; one
// that was given GPUs of its own begins with the first of them. Fails with
// BadConfiguration if there are no such devices for the workers of this
// process.
Result<void> choose_devices(const std::string& asked,
                            const std::vector<std::string>& gpus_of_ranks,
                            int rank, TrainRequest& request);

// Fails with BadConfiguration if there are several: those are not predicted.
Result<std::string> one_device_kind(const Plan& plan);

}  // namespace pipewright::cli
