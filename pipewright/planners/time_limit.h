// What a planner answers that was stopped.

#pragma once

#include <string>

#include "pipewright/base/error.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// "the budget ended before `what`", with the way out, or "interrupted before
// `what`".
Error ended_before(const Problem& problem, const std::string& what);

}  // namespace pipewright
