// Whether training keeps the optimizer's state that its plan was made for.

#pragma once

#include <string>

#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/plan.h"

namespace pipewright::cli {

// A warning where it keeps more or less per weight than the plan counts, in
// float32 and whatever becomes of masters; otherwise "".
std::string other_state_text(const OptimizerChoice& choice, const Plan& plan);

}  // namespace pipewright::cli
