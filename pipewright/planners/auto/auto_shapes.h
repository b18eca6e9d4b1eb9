// The pipelines that auto tries beside those of the other planners: as many
// stages as divide the devices, with equal replicas, next to each other or one
// in each host; and every schedule that a pipeline can run by.

#pragma once

#include <string>
#include <vector>

#include "pipewright/planners/auto/auto_costs.h"

namespace pipewright {

// By 1F1B, at every microbatch size.
std::vector<Pipeline> plain_shapes(const AutoCosts& costs);
// Two stages on any number of devices each: layers with many weights are often
// few and last, and want few replicas. The least busy first.
std::vector<Pipeline> uneven_pairs(const AutoCosts& costs);

// All of their stages recompute.
std::vector<Pipeline> with_recompute(std::vector<Pipeline> pipelines);

// Every pipeline of runs of layers, replicas and devices in the cluster's
// order, under every schedule of one stage a worker, with and without
// recompute; none if they are more than `most`.
std::vector<Pipeline> every_pipeline(const AutoCosts& costs, std::size_t most);

// The pipeline's devices under every other schedule there is for the problem's
// method, where that has several stages a worker with cuts of its own.
std::vector<Pipeline> rescheduled(const Pipeline& pipeline,
                                  const AutoCosts& costs);

// The same for schedules with as many stages a worker as it has; the cuts stay.
std::vector<Pipeline> with_other_schedule(const Pipeline& pipeline,
                                          const AutoCosts& costs);

}  // namespace pipewright
