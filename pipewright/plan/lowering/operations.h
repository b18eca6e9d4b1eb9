// What each stage does on each of its workers, and with which samples.

#pragma once

#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// The workers' devices and the operations, without their memory.
void set_operations(Program& program, const Plan& plan);

}  // namespace pipewright
