// Simulates a program and summarizes the timeline as an Estimate. For the
// estimators of this folder.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/planner.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {

// The traffic does not include reductions. `limits` gives the memory of the
// devices; `facts` are those of the validated program.
Estimate simulated_estimate(const Program& program, const ProgramFacts& facts,
                            const Costs& costs, const Problem& limits);

}  // namespace pipewright
