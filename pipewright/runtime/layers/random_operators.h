// Operators of exported models that draw random numbers, other than dropout:
// their generators are on cores, so a plan can be refused before step 0.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// Fails with BadConfiguration, naming operator, layer and worker, where a
// worker of the plan that is not on a core has one. check_exported() comes
// first.
Result<void> check_random_operators(const Model& model, const Plan& plan);

}  // namespace pipewright
