// Asynchronous 1F1B with several consecutive stages per worker, not necessarily
// the same number on each (async_deep.cc). For PipeMare's planner and the
// generator async-deep.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// Worker w has stages_of[w] consecutive stages, at least one. Every stage has
// the same order and delay as if it were alone on a worker.
//
// With `segment` > 0 the stages of each segment of that length recompute one
// after the other, so that the last one is done just before its backward. The
// last segment does not recompute: its backwards follow its forwards at once.
Result<Schedule> async_deep_schedule(const std::vector<int>& stages_of,
                                     int microbatches, int segment = 0);

// The last stage of a stage's segment; none if the stage does not recompute.
std::optional<int> segment_end(int stage, int num_stages, int segment);

// The number of stages of each worker, as even as possible.
std::vector<int> even_stages(int stages, int workers);

}  // namespace pipewright
