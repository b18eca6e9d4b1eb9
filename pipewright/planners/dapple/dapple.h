// DAPPLE's search with its own objective (dapple.cc names the paper), for tests
// and tables that compare it with all plans.

#pragma once

#include <vector>

#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {

struct DappleChoice {
  std::vector<PipelineStage> stages;
  double latency = 0;  // seconds, by DAPPLE's objective
};

// The best partitions that the search meets, at most `count`, the best first.
std::vector<DappleChoice> dapple_choices(const CostTable& costs,
                                         const Problem& problem,
                                         std::size_t count);

}  // namespace pipewright
