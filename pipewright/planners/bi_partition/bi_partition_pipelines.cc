#include "pipewright/planners/bi_partition/bi_partition_pipelines.h"

#include "pipewright/base/index.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/planners/planner_registry.h"

namespace pipewright {
namespace {

// Of a plan with equal cuts and one stage per worker.
Pipeline pipeline_of_plan(const Plan& plan) {
  Pipeline pipeline;
  pipeline.microbatch = plan.microbatch;
  for (const Stage& stage : plan.stages) {
    PipelineStage& made = pipeline.stages.emplace_back();
    made.end = stage.forward.back().value + 1;
    made.recompute = stage.recompute;
    for (WorkerId worker : stage.workers)
      made.devices.push_back(plan.devices[worker.index()]);
  }
  return pipeline;
}

}  // namespace

Pipeline split_pipeline(const BiPartition& found, const BiPartitionCosts& costs,
                        int microbatch) {
  Pipeline pipeline;
  pipeline.microbatch = microbatch;
  int device = costs.num_devices();
  for (int r : found.replicas) device -= r;
  for (int s = 0; s < found.num_stages(); ++s) {
    const CutPair end = found.cuts[at(s + 1)];
    PipelineStage stage{costs.layer_at(end.x),
                        costs.layer_at(end.y),
                        {},
                        found.recompute[at(s)]};
    for (int r = 0; r < found.replicas[at(s)]; ++r)
      stage.devices.push_back(DeviceId(device++));
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

std::vector<Pipeline> variants_of(Pipeline pipeline, const Problem& problem) {
  bool has_replicas = false;
  for (const PipelineStage& stage : pipeline.stages)
    has_replicas |= stage.devices.size() > 1;
  std::vector<Pipeline> variants;
  for (const char* end : {"", "-so"})
    for (Replication way : {Replication::Split, Replication::Rotate}) {
      if (way == Replication::Rotate && !has_replicas) continue;
      pipeline.schedule =
          std::string(is_asynchronous(problem.method) ? "async-" : "") +
          "1f1b" + end;
      pipeline.replication = way;
      variants.push_back(pipeline);
    }
  return variants;
}

std::optional<Planned> known_plan(Problem problem, int microbatch,
                                  bool with_replicas,
                                  const std::string& planner) {
  problem.microbatches = {microbatch};
  std::optional<Planned> best;
  const auto take = [&](Result<Planned> one, Seconds bottleneck) {
    if (!one || !one->estimate.fits) return;
    if (best && best->estimate.step <= one->estimate.step) return;
    best = *std::move(one);
    best->bottleneck = bottleneck;
    best->plan.planner = planner;
  };
  const std::unique_ptr<Planner> balanced = balanced_planner(),
                                 pipedream = pipedream_planner(
                                     PipeDreamParts{with_replicas});
  for (const Planner* known : {balanced.get(), pipedream.get()}) {
    const Result<Planned> found = known->plan(problem);
    if (!found) continue;
    take(found, found->bottleneck);
    for (const Pipeline& variant :
         variants_of(pipeline_of_plan(found->plan), problem))
      take(planned(variant, problem, planner), found->bottleneck);
  }
  return best;
}

}  // namespace pipewright
