// Program + costs -> TimedCode.

#pragma once

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/simulate/engine/timed_code.h"

namespace pipewright {

struct CompileOptions {
  // The code will be executed for one repetition only, and the program has
  // nothing but a body: fewer slots are enough.
  bool runs_once = false;
};

// The program must have passed validate(), and must outlive the code.
TimedCode compile(const Program& program, const Costs& costs,
                  const CompileOptions& options = {});

}  // namespace pipewright
