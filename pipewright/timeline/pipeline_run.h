// A pipeline that was run to be measured: its plan, and when its workers did
// what.

#pragma once

#include "pipewright/plan/plan.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

struct PipelineRun {
  Plan plan;
  Timeline timeline;  // of several steps, one after the other
};

// Time between the ends of two steps.
Seconds step_period(const Timeline& timeline);

}  // namespace pipewright
