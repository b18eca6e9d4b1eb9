// Pipelines whose stages are on whole hosts of a large cluster, for models with
// more weights than hosts can sum in the time that a step computes: each host
// then has a part of the weights, and what passes between stages is sent over
// its network card instead.
//
// The step is predicted as M (1 + (S - 1) / m) + R, with S stages, m
// microbatches, the largest compute or transfer time M of a stage, and its
// longest reduction R. For each of some R, the smallest M that the hosts allow
// is found by bisection; whether they do, by a table over the layers of the
// fewest hosts that they need. The method is ours.

#pragma once

#include <vector>

#include "pipewright/planners/pipeline.h"

namespace pipewright {

struct HostPipeline {
  Pipeline pipeline;
  Seconds predicted;  // the step
};

// For one of `copies` equal groups of hosts that the problem's cluster is, the
// fastest predicted first. Empty unless the group has several hosts with links
// and one kind of device, and training is synchronous.
std::vector<HostPipeline> host_pipelines(const Problem& group, int copies);

// The pipeline with one host less for the stage with the most of them, and one
// more for another stage; one pipeline for each other stage.
std::vector<Pipeline> with_moved_host(const Pipeline& pipeline, int per_host);

}  // namespace pipewright
