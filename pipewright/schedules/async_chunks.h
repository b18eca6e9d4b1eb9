// Asynchronous 1F1B with several consecutive stages a worker, not necessarily
// equally many.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// stages_of[w] consecutive stages on worker w, at least one each. Every stage
// has the order, and so the delays, that it has alone on a worker.
//
// With `segment` > 0 the stages of each segment of that length recompute one
// after the other, so that its last one is done just before its backward. The
// last segment does not: its backwards follow its forwards as soon.
Result<Schedule> async_chunks_schedule(const std::vector<int>& stages_of,
                                       int microbatches, int segment = 0);

// The last stage of a stage's segment; none for those that do not recompute.
std::optional<int> segment_end(int stage, int num_stages, int segment);

// So many stages over so many workers, as evenly as can be.
std::vector<int> even_chunks(int stages, int workers);

}  // namespace pipewright
