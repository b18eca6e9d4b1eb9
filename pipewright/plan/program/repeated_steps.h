// Whether steps of a program are repetitions of one another: a device may then
// record the actions of one and replay them.

#pragma once

#include <string>

#include "pipewright/plan/program/program.h"

namespace pipewright {

// Empty if every step of the worker has the same actions on the same memory.
std::string why_steps_differ(const Program& program,
                             const WorkerProgram& worker);

// Whether that is so for every worker.
bool repeats_steps(const Program& program);

}  // namespace pipewright
