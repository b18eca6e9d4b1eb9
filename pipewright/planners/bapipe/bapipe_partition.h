// BaPipe's balanced partitions: where to end each stage so that the slowest
// stage is as fast as possible (bapipe.cc names the paper).
//
//   inter-layer     exact, by dynamic programming over stages and ends:
//                     D[s][e] = min over f of max(D[s-1][f], cost(s, f, e))
//   coarse-grained  the same with fewer cut positions, those with small
//                   tensors; or, exactly, with the links' time in the cost
//   memory          moves blocks out of stages that hold too much; or, exactly,
//                   the same dynamic program with an infinite cost where memory
//                   is exceeded

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "pipewright/planners/bapipe/bapipe_costs.h"

namespace pipewright {

// What a partition must consider besides compute time.
struct PartitionRules {
  bool links = false;   // a stage costs its slot, not only its compute time
  bool memory = false;  // no stage may exceed its device's memory
  Bytes largest_crossing = Bytes::max();  // at a cut
};

// The stages with the smallest largest cost; of these the ones with the fewest
// bytes over the cuts. None if no partition satisfies the rules.
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
// sum of excesses, each time in the direction that slows the slowest stage
// least. The result may still exceed the memory.
StageEnds repaired_for_memory(const StageCosts& costs, StageEnds ends);

// Orders of devices worth trying: the cluster's own, and with several kinds
// every order of kinds (if those are too many, devices of one kind stay
// together). Each has `num_stages` devices.
std::vector<std::vector<DeviceId>> device_orders(const Cluster& cluster,
                                                 int num_stages);

}  // namespace pipewright
