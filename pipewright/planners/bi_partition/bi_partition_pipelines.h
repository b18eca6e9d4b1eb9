// The pipelines that Bi-Partition lets the estimator compare: those of its
// search, in every schedule that they may use; and the plans of `balanced` and
// PipeDream, which are plans with equal cuts.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/planners/bi_partition/bi_partition_search.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {

Pipeline split_pipeline(const BiPartition& found, const BiPartitionCosts& costs,
                        int microbatch);

// The schedules and ways of replication that a pipeline may use. More
// microbatches in flight hide slow links, if memory and method allow it: 2bw
// allows no more in flight than a minibatch has.
std::vector<Pipeline> variants_of(Pipeline pipeline, const Problem& problem);

// The fastest variant of the plan of `balanced` and of that of PipeDream, with
// or without replicas, at one microbatch size, in the name of `planner`; none
// if neither has a plan that fits.
std::optional<Planned> known_plan(Problem problem, int microbatch,
                                  bool with_replicas,
                                  const std::string& planner);

}  // namespace pipewright
