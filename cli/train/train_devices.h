// Which devices a run computes on: those that the plan names, or those that
// the user names instead.

#pragma once

#include <string>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"

namespace pipewright::cli {

// Gives each worker of the plan a kind of device: `asked`, or, where that is
// empty, the plan's own, or, where the plan names none, cpu. Fails with
// BadConfiguration if this machine has no such devices, or if they are GPUs and
// there are several ranks.
Result<void> choose_devices(const std::string& asked, int num_ranks,
                            Plan& plan);

// Fails with BadConfiguration if there are several: those are not predicted.
Result<std::string> one_device_kind(const Plan& plan);

}  // namespace pipewright::cli
