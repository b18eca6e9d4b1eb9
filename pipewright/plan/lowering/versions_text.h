// How stale the weights of a plan are, for people: stage by stage.

#pragma once

#include <string>
#include <vector>

#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// From schedule and method alone; where forward and backward of a layer lie
// apart, as if they did not.
std::vector<StageDelay> staleness_of(const Plan& plan);

// "staleness by stage: 1.5 1 0.5 0 steps, backward 0, corrected"; nothing
// where none are.
std::string staleness_text(const std::vector<StageDelay>& stages);

}  // namespace pipewright
