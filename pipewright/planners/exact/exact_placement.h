// Placement instances (profile/formats/placement.h) as problems of the exact
// planner: converts an instance to a chain problem, and parts back to a split.

#pragma once

#include "pipewright/planners/exact/exact.h"
#include "pipewright/profile/formats/placement.h"

namespace pipewright {

// An instance whose nodes are collected into groups that share a device: nodes
// of one colour, and groups on a common cycle.
//
// Forward nodes order the groups. A group without forward nodes (an accumulated
// gradient belongs to no forward operator) is ordered by its backward edges in
// reverse, as in the program of the paper's authors.
struct GroupedInstance {
  ChainProblem problem;                  // one node per group
  std::vector<std::vector<int>> groups;  // indices of instance nodes
};
// Without chains there is no order, and groups are the colours alone.
enum class Chains {
  No,
  Yes
};
GroupedInstance grouped(const PlacementInstance& instance,
                        Chains chains = Chains::Yes);

// Parts of groups as a split by the ids of the instance, with loads.
PlacementSplit split_of(const PlacementInstance& instance,
                        const GroupedInstance& groups,
                        const std::vector<ChainPart>& parts);

}  // namespace pipewright
