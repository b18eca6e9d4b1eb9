// One run of a program, checked action by action: does each find what it reads,
// and is everything done once? When actions may start is defined in
// execution.h. For validate.cc alone.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// The first fault of a run with that many repetitions of the body, or nothing
// and the most microbatches in flight on a worker, per stage. Indices inside
// the actions have been checked.
std::optional<Error> run_fault(const Program& program, int repetitions,
                               std::vector<int>& peak_in_flight);

}  // namespace pipewright
