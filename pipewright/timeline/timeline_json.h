// The figures of a timeline as JSON: what `simulate --json` answers.

#pragma once

#include "pipewright/base/json.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// step_seconds, bubble, duration_seconds, minibatches, and per worker and link
// what the summaries hold. Spans are left to chrome_trace.h.
Json to_json(const Timeline& timeline);

}  // namespace pipewright
