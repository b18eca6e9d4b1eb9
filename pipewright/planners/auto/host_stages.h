// Pipelines whose stages are on whole hosts of a large cluster, for models with
// more weights than hosts can sum in the time that a step computes: each host
// then has a part of the weights, and what passes between stages is sent over
// its network card instead.
//
// First, for each of some limits on the longest reduction, the smallest compute
// or transfer time of a stage that the hosts allow is found by bisection;
// whether they do, by a table over the layers of the fewest hosts that they
// need. Then the best of these pipelines, as host_clock.h predicts it, is
// improved by single changes: of hosts, cuts, stages, schedule and microbatch
// size. The method is ours.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/planners/pipeline.h"

namespace pipewright {

struct HostPipeline {
  Pipeline pipeline;
  Seconds predicted;  // the step
};

// For one of `copies` equal groups of hosts that the problem's cluster is. None
// unless the group has several hosts with links and one kind of device, and
// training is synchronous.
std::optional<HostPipeline> host_pipeline(const Problem& group, int copies);

}  // namespace pipewright
