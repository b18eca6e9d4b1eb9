// A cluster as islands (hosts, or single devices), and how fast data can leave
// or enter an island. For lower bounds, so numbers are the largest over all
// islands, but the smallest where that is weaker.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

struct Islands {
  int count = 0;
  int max_devices = 0;  // per island
  int min_devices = 0;
  double fastest = 0;  // bytes per second of one link between two islands
  double latency = 0;  // seconds, the smallest of a link between two islands
  double outside = 0;  // bytes per second of one island with all others, in
                       // one direction
};

// Once with hosts as islands, if there are several with links between them, and
// once with single devices, unless there are many devices and several hosts.
std::vector<Islands> islands_of(const Cluster& cluster);

}  // namespace pipewright
