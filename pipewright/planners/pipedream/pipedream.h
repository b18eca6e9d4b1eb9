// PipeDream's partition of a chain of layers, with its own cost model
// (pipedream.cc names the paper).

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {

struct PipeDreamPartition {
  std::vector<PipelineStage> stages;
  Seconds bottleneck;    // slowest stage or transfer, one microbatch
  int layer_groups = 0;  // as in Planned
};

// For inner * outer devices, numbered host by host. Where the tables would be
// too large for every layer, cuts are between groups of layers. Fails with
// BadConfiguration if that leaves few groups, if the time limit is over, or if
// there are more devices than layers and no replicas.
Result<PipeDreamPartition> pipedream_partition(
    const CostTable& costs, int kind, const Levels& levels,
    const std::function<bool()>& is_over = {}, PipeDreamParts parts = {});

}  // namespace pipewright
