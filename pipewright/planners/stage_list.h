// Stages as the planners that count replicas decide them: where each ends and
// on how many devices it is, the devices taken in the cluster's order. And what
// a cluster looks like to a planner that knows bandwidths by level only.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {

struct StageShape {
  int end = 0;  // the first layer behind it
  int replicas = 1;

  auto operator<=>(const StageShape&) const = default;
};

// The schedule is 1F1B, drained or not as the problem's method has it.
Pipeline pipeline_of(const std::vector<StageShape>& stages, int microbatch,
                     const Problem& problem, Replication replication);
// One device each.
Pipeline pipeline_of(const std::vector<int>& ends, int microbatch,
                     const Problem& problem);

// Devices of a host, hosts, and the slowest way inside and between them.
struct Levels {
  int inner = 1;  // devices a level-1 group has
  int outer = 1;  // groups; 1 where hosts differ in size or there is only one
  BytesPerSecond inner_bandwidth, outer_bandwidth;
};
Levels levels_of(const Cluster& cluster);

// The slowest link between devices first..end-1; infinite for a single one.
BytesPerSecond slowest_link(const Cluster& cluster, int first, int end);

// Index of the kind that the planners that know one kind only reckon with: that
// of the first device.
int leading_kind(const Cluster& cluster);

}  // namespace pipewright
