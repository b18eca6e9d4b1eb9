// Who waits for whom in a program that repeats, and how long a repetition takes
// because of it.

#pragma once

#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// Seconds a repetition in the long run, where every wire is direct. Elsewhere
// as if every channel had a wire of its own and shared nothing: never more.
double period_of_waits(const TimedCode& code);

// With fewer repetitions between the first worker and the last, some wait for
// what others could not begin.
int least_lead(const TimedCode& code);

}  // namespace pipewright
