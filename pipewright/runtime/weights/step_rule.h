// What a step does to one parameter besides what the optimizer does: how its
// rate suffers from delay (PipeMare's T1), and over how many steps its velocity
// is averaged (T2).
//
// A tied parameter is stepped at each of its stages, and must stay one
// parameter: everywhere it takes the delay and the average of its most delayed
// user.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

struct StepRule {
  double delay = 0;      // for delayed_rate()
  double averaging = 0;  // 0: no velocity is kept
};
StepRule step_rule(const Program& program, StageId owner,
                   ParameterId parameter);

// What is left of a velocity after a step, gamma = D^(1/averaging).
double velocity_decay(const TrainingSettings& settings, double averaging);

}  // namespace pipewright
