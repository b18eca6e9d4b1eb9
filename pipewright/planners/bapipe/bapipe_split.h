// BaPipe's intra-layer partition: a cut inside a layer, for devices that can
// share one (FPGAs). bapipe.cc names the paper.
//
// A layer split f : 1-f by output channels becomes two layers side by side and
// a join (split_layers.h). By the rules for any graph, the cut between the two
// carries the input and f of the output, and the input's gradient is the sum of
// two. So a split partition is an ordinary plan of a model with more layers.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/model/split_layers.h"
#include "pipewright/planners/bapipe/bapipe_costs.h"

namespace pipewright {

// Fractions are multiples of 1/64, rounded to whole outputs afterwards.
inline constexpr int kSplitParts = 64;

// The end of a stage: it has everything before `block`, and parts/64 of it.
struct SplitEnd {
  int block = 0;
  int parts = 0;
  auto operator<=>(const SplitEnd&) const = default;
};

struct SplitPartition {
  std::vector<SplitEnd> ends;  // one per stage
  Seconds bottleneck;          // slowest stage
  Seconds promised;            // step
  int num_split = 0;           // layers
};

// The partition with the fastest slowest stage, found by bisection over a limit
// up to which each device is filled. `may_split` has an element per layer. A
// layer is not split where the link would be the limit. None if it is no faster
// than `whole`, the slowest stage of a partition of whole layers.
std::optional<SplitPartition> split_partition(
    const StageCosts& costs, const Profile& profile,
    const std::vector<bool>& may_split, Seconds whole);

// What the partition means for the model: which layers to split, and the end of
// each stage among the layers that come of it.
struct SplitStages {
  std::vector<LayerSplit> splits;
  std::vector<int> ends;
};
// None if a part would have no outputs. The costs are those of the model.
std::optional<SplitStages> split_stages(const StageCosts& costs,
                                        const Model& model,
                                        const SplitPartition& partition);

}  // namespace pipewright
