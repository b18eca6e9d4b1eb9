// Bi-Partition with a chosen band, for comparing its plans with equal cuts
// under the same costs (experiments/bi-partition).

#pragma once

#include <memory>

#include "pipewright/planners/planner.h"

namespace pipewright {

// At most `band` layers between the forward and the backward cut of a boundary;
// 0: equal cuts only.
std::unique_ptr<Planner> bi_partition_planner(int band);

}  // namespace pipewright
