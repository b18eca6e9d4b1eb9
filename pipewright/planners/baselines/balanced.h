// Exact balance of a chain: contiguous runs of layers, one a device in order,
// so that the slowest stage or link is as fast as it can be.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"
#include "pipewright/planners/cost_table.h"

namespace pipewright {

struct Balance {
  std::vector<int> ends;  // of stages; stage s is on device s
  Seconds bottleneck;     // slowest stage or link, one microbatch
};

// Over `stages` devices, at most as many as there are layers. The load of a
// stage is its forward and backward; that of a link, if counted, the larger of
// its directions, or both where they share the wire, and a device that cannot
// compute while it transfers has its links' time on top. Devices that cannot
// talk are never neighbours; if there is no way round that, ends is empty.
Balance balanced_stages(const CostTable& costs, const Cluster& cluster,
                        int stages, bool communication);

}  // namespace pipewright
