// What a step does to a parameter besides the optimizer: by how much delay
// lowers its rate (PipeMare's T1), and over how many steps its velocity is
// averaged (T2).
//
// A tied parameter is stepped at each of its stages and must stay equal
// everywhere: all of them use the delay and the average of its most delayed
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

// By which factor a step shrinks a velocity, gamma = D^(1/averaging).
double velocity_decay(const TrainingSettings& settings, double averaging);

}  // namespace pipewright
