// PipeDream's partition of a chain under its own cost model.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {

struct PipeDreamPartition {
  std::vector<PipelineStage> stages;
  Seconds bottleneck;  // slowest stage or transfer, one microbatch
};

// For inner * outer devices, numbered group by group. Fails with
// BadConfiguration where the tables would be larger than any use of them, or
// take longer than a clock allows.
Result<PipeDreamPartition> pipedream_partition(
    const CostTable& costs, int kind, const Levels& levels,
    const std::function<bool()>& is_over = {});

}  // namespace pipewright
