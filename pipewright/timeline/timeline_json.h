// The numbers of a timeline as JSON, as printed by `simulate --json`.

#pragma once

#include "pipewright/base/json.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// step_seconds, bubble, duration_seconds, minibatches, and the summaries of
// workers and links. Without spans: those are in chrome_trace.h.
Json to_json(const Timeline& timeline);

}  // namespace pipewright
