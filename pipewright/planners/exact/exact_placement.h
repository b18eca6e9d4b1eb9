// Placement instances (profile/formats/placement.h) for the exact planner: from
// an instance to a chain problem, and from its parts back to a split.

#pragma once

#include "pipewright/planners/exact/exact.h"
#include "pipewright/profile/formats/placement.h"

namespace pipewright {

// An instance whose nodes are gathered into groups that share a device: nodes
// of one colour, and nodes that such groups close a cycle through.
//
// Forward nodes order the groups. A group without forward nodes (a gradient
// that is accumulated belongs to no forward operator) is ordered as the mirror
// image of its backward edges: that is the rule of the paper's own program.
struct GroupedInstance {
  ChainProblem problem;                  // one node a group
  std::vector<std::vector<int>> groups;  // indices of instance nodes
};
// Without chains nothing is ordered, and groups are the colours alone.
enum class Chains {
  No,
  Yes
};
GroupedInstance grouped(const PlacementInstance& instance,
                        Chains chains = Chains::Yes);

// Parts of groups as a split by the source's ids; loads filled in.
PlacementSplit split_of(const PlacementInstance& instance,
                        const GroupedInstance& groups,
                        const std::vector<ChainPart>& parts);

}  // namespace pipewright
