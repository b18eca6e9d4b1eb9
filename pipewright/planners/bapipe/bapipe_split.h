// BaPipe's intra-layer partition: a cut inside a layer, for devices that can
// share one (FPGAs). bapipe.cc names the paper.
//
// A layer split f : 1-f by output channels becomes two layers side by side.
// Each reads the whole input, holds its part of the weights and computes its
// part of the output; layers that read the output read both. No other code
// needs to know about the split: by the rules for any graph, the cut between
// the two carries the input and f of the output, and the input's gradient is
// the sum of two. So a split partition is an ordinary plan for a refined
// profile.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/planners/bapipe/bapipe_costs.h"

namespace pipewright {

// Fractions are multiples of 1/64: profiles do not know channels.
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

// Why a layer cannot be split ("" if it can): views and shared parameters.
std::string why_not_split(const Profile& profile, LayerId layer);

// The partition with the fastest slowest stage, found by bisection over a limit
// up to which each device is filled. A layer is not split where the link would
// be the limit. None if it is no faster than `whole`, the slowest stage of a
// partition of whole layers.
std::optional<SplitPartition> split_partition(const StageCosts& costs,
                                              const Profile& profile,
                                              Seconds whole);

// The profile with the layers of the partition split, and the ends of its
// stages, in layers. Fails with BadConfiguration as why_not_split() says.
struct RefinedProfile {
  Profile profile;
  std::vector<int> ends;
};
Result<RefinedProfile> refined_profile(const Profile& profile,
                                       const StageCosts& costs,
                                       const SplitPartition& partition);
// One layer split: the first part has `parts`/64.
Result<Profile> split_layer(const Profile& profile, LayerId layer, int parts);

}  // namespace pipewright
