// Stages as an end and a number of replicas, with devices in the cluster's
// order; and a cluster as a planner sees it that knows one kind of device and
// one bandwidth per level.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {

struct StageShape {
  int end = 0;  // one past the last layer
  int replicas = 1;

  auto operator<=>(const StageShape&) const = default;
};

// With the schedule 1f1b, or async-1f1b if the problem's method is
// asynchronous.
Pipeline pipeline_of(const std::vector<StageShape>& stages, int microbatch,
                     const Problem& problem, Replication replication);
// One device per stage.
Pipeline pipeline_of(const std::vector<int>& ends, int microbatch,
                     const Problem& problem);

// A cluster of equal hosts, with the slowest link inside and between them.
struct Levels {
  int inner = 1;  // devices per host
  int outer = 1;  // hosts; 1 if there is only one or they differ in size
  BytesPerSecond inner_bandwidth, outer_bandwidth;
};
Levels levels_of(const Cluster& cluster);

// The slowest link between devices first..end-1; infinite for a single device.
BytesPerSecond slowest_link(const Cluster& cluster, int first, int end);

// The kind of the first device, for planners that know only one kind.
int leading_kind(const Cluster& cluster);

}  // namespace pipewright
