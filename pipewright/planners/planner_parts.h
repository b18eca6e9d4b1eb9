// Planners with parts switched off: for `plan --set PART=off`, for tables that
// show what each part is worth (experiments/), and for planners that compare
// their plans with those of another one.
//
// Each planner defines its function in its own folder, beside that of
// planner_registry.h.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct BaPipeParts {
  // The schedules: two for GPUs, two for FPGAs. Without both of a platform no
  // pipeline is tried there.
  bool sno = true, so = true;         // 1F1B-SNO, 1F1B-SO
  bool one_as = true, fbp_as = true;  // 1F1B-AS, FBP-AS
  // Where a link limits, cuts at smaller tensors; off: balanced compute only.
  bool coarse_partition = true;
  // Where nothing fits the memory, layers are moved; off: nothing is done.
  bool memory_tuning = true;
  // Data parallelism where that is faster; off: always a pipeline.
  bool data_parallelism = true;
  // Layers split over two devices where these can; off: whole layers.
  bool split_layers = true;
};
std::unique_ptr<Planner> bapipe_planner(BaPipeParts parts);

struct SppParts {
  // Devices in the order of recursive cuts; off: as the cluster lists them.
  bool device_order = true;
  // Cuts with replicas, by compute, channels and all-reduce; off: balanced
  // compute, one device per stage.
  bool partition = true;
  // Microbatches in the order of rounds and by list scheduling; off: 1F1B.
  bool microbatch_order = true;

  bool all() const { return device_order && partition && microbatch_order; }
};
std::unique_ptr<Planner> spp_planner(SppParts parts);

struct BiPartitionParts {
  // Off: equal cuts for forward and backward.
  bool separate_cuts = true;
  // Replicas of stages; off: one device per stage.
  bool replicas = true;
  // Off: what forward saved is kept, and sent to the worker of backward.
  bool recompute = true;
};
std::unique_ptr<Planner> bi_partition_planner(BiPartitionParts parts);

struct PipeDreamParts {
  // Replicas of stages; off: one device per stage, which its published
  // optimizer calls a straight pipeline.
  bool replicas = true;
};
std::unique_ptr<Planner> pipedream_planner(PipeDreamParts parts);

struct PlannerPart {
  std::string planner;  // "bapipe"
  std::string name;     // "coarse-partition"
  std::string instead;  // what is done without it
};

// Planner by planner. Planners whose parts cannot be switched off have none.
const std::vector<PlannerPart>& planner_parts();

// The planner without these parts; it keeps its name. Fails with
// BadConfiguration for a planner that has no such part; the hint lists those
// that it has.
Result<std::unique_ptr<Planner>> planner_without(
    const std::string& planner, const std::vector<std::string>& parts);

}  // namespace pipewright
