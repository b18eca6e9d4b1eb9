// Which transfers and reductions meet on which wires, and what they share
// there. For timed_code.cc alone.

#pragma once

#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// Fills transfers (but for rings and reads), channels, wires and pools of
// `code`. A pool that only one wire or ring uses is not shared, but a limit of
// what goes through it.
void add_wires(const Program& program, const Costs& costs, TimedCode& code);

}  // namespace pipewright
