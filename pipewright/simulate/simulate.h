// Program + costs + cluster -> Timeline.
//
// Knows no planner, schedule or method by name: it executes actions as
// program.h describes them, on a clock.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct SimulateOptions {
  int minibatches = 0;     // 0: as many as a steady state needs
  bool keep_spans = true;  // off for planners: only the summaries
  bool track_memory = true;
};

// The program must have passed validate().
Timeline simulate(const Program& program, const Costs& costs,
                  const SimulateOptions& options = {});

}  // namespace pipewright
