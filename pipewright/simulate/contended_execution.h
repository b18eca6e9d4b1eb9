// Executes code whose workers share hardware: while several workers of a unit
// compute, each of them is slower (Costs::Contention).
//
// An execution shows who computes when, and from that follows how long each
// action takes; then it is executed again, until nothing changes. What happens
// first does not depend on what comes later, so every round settles at least
// the next event, and a program that does not overlap minibatches ends with the
// exact times. Otherwise an action of the body takes the mean of its
// repetitions.

#pragma once

#include "pipewright/simulate/costs.h"
#include "pipewright/simulate/engine/engine.h"

namespace pipewright {

// Leaves the times in the code: each op of work has its own.
Execution execute_contended(TimedCode& code, EngineOptions options,
                            const Costs::Contention& contention);

}  // namespace pipewright
