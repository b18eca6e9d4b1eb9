// A worker's spans, by start, from the journal of an execution: its own work,
// and what it sends and reduces.

#pragma once

#include <vector>

#include "pipewright/simulate/engine/journal.h"
#include "pipewright/simulate/engine/timed_code.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// Of spans that start together the worker's own work comes first.
std::vector<Span> spans_of(const TimedCode& code, const Journal& journal,
                           WorkerId worker);

}  // namespace pipewright
