// A worker's spans, by start, from the journal of an execution: its own work,
// and what it sends and reduces.

#pragma once

#include <vector>

#include "pipewright/simulate/journal.h"
#include "pipewright/simulate/timed_code.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// Of those that start together a worker's own come first.
std::vector<Span> spans_of(const TimedCode& code, const Journal& journal,
                           WorkerId worker);

}  // namespace pipewright
