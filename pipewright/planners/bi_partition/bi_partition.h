// Bi-Partition with a chosen band and number of replicas, for comparing its
// plans with equal cuts, or without replicas,
// under the same costs (experiments/bi-partition).

#pragma once

#include <memory>

#include "pipewright/planners/planner.h"

namespace pipewright {

// At most `band` layers between the forward and the backward cut of a boundary;
// 0: equal cuts only. At most `max_replicas` replicas of a stage.
std::unique_ptr<Planner> bi_partition_planner(int band, int max_replicas);

}  // namespace pipewright
