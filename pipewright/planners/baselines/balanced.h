// Exact balance of a chain of layers: one stage per device, in order, so that
// the slowest stage or link is as fast as possible.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"
#include "pipewright/planners/cost_table.h"

namespace pipewright {

struct Balance {
  std::vector<int> ends;  // of stages; stage s is on device s
  Seconds bottleneck;     // slowest stage or link, one microbatch
  int layer_groups = 0;   // as in Planned
};

// Over `stages` devices, at most as many as there are layers. The load of a
// stage is its forward and backward. With `communication`, the load of a link
// is the larger of its two directions, or their sum for a half-duplex link, and
// a device that cannot compute while it transfers has its links' time added.
// If neighbouring devices have no link, `ends` is empty.
Balance balanced_stages(const CostTable& costs, const Cluster& cluster,
                        int stages, bool communication);

}  // namespace pipewright
