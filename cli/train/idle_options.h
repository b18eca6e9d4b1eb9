// Options of `train` that a person gave and that would change nothing.

#pragma once

#include <set>
#include <string>

#include "cli/command.h"
#include "pipewright/base/result.h"
#include "pipewright/plan/method.h"
#include "pipewright/plan/optimizer_choice.h"

namespace pipewright::cli {

using GivenOptions = std::set<std::string>;  // "--momentum"
GivenOptions given_options(const CLI::App& command);

// Fail with BadConfiguration, naming the first option of another optimizer or
// method.
Result<void> check_given(const GivenOptions& given,
                         const OptimizerChoice& choice);
Result<void> check_given(const GivenOptions& given, Method method);

// A warning about those for GPUs, where all workers are on cores; "": none.
std::string idle_on_cores_text(const GivenOptions& given);

}  // namespace pipewright::cli
