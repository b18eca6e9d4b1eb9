// How many replicas a stage can have: known before there is a schedule, which
// takes long to make for many microbatches and workers.

#pragma once

#include <cstddef>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// Replicas that split need a sample of each microbatch, others one microbatch
// of each minibatch.
Result<void> check_replica_count(std::size_t stage, std::size_t replicas,
                                 Replication replication, int microbatch,
                                 int num_microbatches);

}  // namespace pipewright
