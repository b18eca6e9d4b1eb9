// BaPipe's balanced partitions: where to end each stage so that the slowest is
// as fast as can be (bapipe.cc names the paper).
//
//   inter-layer     exact, by dynamic programming over stages and ends:
//                     D[s][e] = min over f of max(D[s-1][f], cost(s, f, e))
//   coarse-grained  the same over fewer places to cut, those with small
//                   tensors; or with the links' time inside the cost, which is
//                   the exact answer to the same question
//   memory          whole blocks moved from stages that hold too much to their
//                   neighbours; or the dynamic programme with an infinite cost
//                   where memory is exceeded, which is exact

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "pipewright/planners/bapipe/bapipe_costs.h"

namespace pipewright {

// What a partition must look at beyond computing.
struct PartitionRules {
  bool links = false;   // a stage costs its slot, not only its computing
  bool memory = false;  // a stage beyond its device's memory is not allowed
  Bytes largest_crossing = Bytes::max();  // at a cut
};

// The ends of stages with the smallest largest cost; among them those with the
// fewest bytes over the cuts. None if no partition keeps the rules.
std::optional<StageEnds> balanced_ends(const StageCosts& costs,
                                       const PartitionRules& rules = {});

// The largest cost of a stage under the rules; infinite where they are broken.
Seconds largest_cost(const StageCosts& costs, const PartitionRules& rules,
                     const StageEnds& ends);

// Whether some cut's link is slower than its stage.
bool some_link_limits(const StageCosts& costs, const StageEnds& ends);
// The most bytes over a cut.
Bytes largest_crossing(const StageCosts& costs, const StageEnds& ends);

// Bytes beyond the memory, over all stages.
Bytes memory_excess(const StageCosts& costs, const StageEnds& ends);
// Moves blocks out of the stage with the largest excess while that lowers the
// sum of excesses, each time the way that slows the slowest stage least. May
// end with an excess above 0: then it found no way.
StageEnds repaired_for_memory(const StageCosts& costs, StageEnds ends);

// Orders of devices worth trying: as the cluster has them, and where there are
// several kinds every order of kinds (only whole kinds moved when those are too
// many). Each has `num_stages` devices.
std::vector<std::vector<DeviceId>> device_orders(const Cluster& cluster,
                                                 int num_stages);

}  // namespace pipewright
