// Seconds per minibatch in the long run, of a program that repeats.

#pragma once

#include "pipewright/base/units.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"

namespace pipewright {

// Executes the program until every worker and every channel keeps its pace, and
// returns the slowest pace. For a program that synchronises every minibatch it
// equals the body's duration. The program must have passed validate().
//
// The workers of a plan wait for each other, so that in the long run all have
// the same pace. The result is exact up to rounding once each of them repeats
// what it did some repetitions before. An execution that never does so ends
// after some million actions; the result is then the mean of its middle half.
Seconds steady_state_period(const Program& program, const Costs& costs);

}  // namespace pipewright
