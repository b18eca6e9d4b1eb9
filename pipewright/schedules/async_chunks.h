// Asynchronous 1F1B with several consecutive stages a worker, not necessarily
// equally many.

#pragma once

#include <vector>

#include "pipewright/plan/schedule.h"

namespace pipewright {

// stages_of[w] consecutive stages on worker w, at least one each. Every stage
// has the order, and so the delays, that it has alone on a worker.
Result<Schedule> async_chunks_schedule(const std::vector<int>& stages_of,
                                       int microbatches);

// So many stages over so many workers, as evenly as can be.
std::vector<int> even_chunks(int stages, int workers);

}  // namespace pipewright
