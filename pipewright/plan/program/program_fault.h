// How a fault in a program is told: the action, why, and the grid around it.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

struct ProgramMark {
  WorkerId worker;
  std::int64_t position = 0;  // among all actions of the worker's run
};

// MalformedInput; `where` names the first mark's worker and action.
Error program_fault(const Program& program, int repetitions,
                    const std::vector<ProgramMark>& marks,
                    const std::string& message);

}  // namespace pipewright
