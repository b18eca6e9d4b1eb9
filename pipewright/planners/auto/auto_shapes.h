// The pipelines that auto tries in addition to those of the other planners:
// every number of stages that divides the devices, with equal replicas; and
// every schedule for a pipeline.

#pragma once

#include <string>
#include <vector>

#include "pipewright/planners/auto/auto_costs.h"

namespace pipewright {

// With 1F1B, at every microbatch size. A stage's replicas are neighbours, or
// are spread over the hosts.
std::vector<Pipeline> plain_shapes(const AutoCosts& costs);
// Two stages with different numbers of replicas: the last layers often have
// most of the weights and need few replicas. The least busy pipeline first.
std::vector<Pipeline> uneven_pairs(const AutoCosts& costs);

// Few workers with many stages each, in breadth-first order, with few
// microbatches: the gradients of the last layers are summed while the first
// layers compute. One worker is data parallelism with such sums.
std::vector<Pipeline> looped_shapes(const AutoCosts& costs);

// The pipelines with recompute in all stages.
std::vector<Pipeline> with_recompute(std::vector<Pipeline> pipelines);

// Every pipeline with devices in the cluster's order and one stage per worker:
// all cuts, replicas and schedules, with and without recompute. Empty if there
// are more than `max_count`.
std::vector<Pipeline> every_pipeline(const AutoCosts& costs,
                                     std::size_t max_count);

// The pipeline's devices with every other schedule for the problem's method. A
// schedule with another number of stages per worker gets new cuts.
std::vector<Pipeline> rescheduled(const Pipeline& pipeline,
                                  const AutoCosts& costs);

// Only the schedules with the same number of stages per worker; the cuts stay.
std::vector<Pipeline> with_other_schedule(const Pipeline& pipeline,
                                          const AutoCosts& costs);

}  // namespace pipewright
