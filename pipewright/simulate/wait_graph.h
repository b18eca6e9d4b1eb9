// Who waits for whom in a program that repeats, and how long a repetition takes
// because of it.

#pragma once

#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// Seconds a repetition in the long run, where every wire is direct. Elsewhere
// as if every channel had a wire of its own and shared nothing: never more.
double period_of_waits(const TimedCode& code);

// By how many repetitions some must be ahead of others for these to go on.
int most_ahead(const TimedCode& code);

}  // namespace pipewright
