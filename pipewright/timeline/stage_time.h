// How long the workers of a stage compute in a step.

#pragma once

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// What all replicas of a stage spend on it. Of a run with the spans of one
// step only, as GPUs have it, that of this step.
Seconds busy_per_step(const Timeline& timeline, StageId stage);

}  // namespace pipewright
