// How a run that has come to a stop is told: who waits for what, worker by
// worker, and the grid around them.

#pragma once

#include "pipewright/base/error.h"
#include "pipewright/plan/program/execution.h"

namespace pipewright {

// MalformedInput. No worker can go on, and some are not at their ends.
Error deadlock(const ExecutionState& state);

}  // namespace pipewright
