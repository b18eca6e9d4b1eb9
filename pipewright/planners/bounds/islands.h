// A cluster as islands: hosts, or single devices, and how fast data can leave
// or enter one. For lower bounds, so every figure is the largest of any island.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

struct Islands {
  int count = 0;
  int most_devices = 0;  // of one
  double fastest = 0;    // bytes a second over one link between two of them
  double outside = 0;    // bytes a second of one with all others, one way
};

// Hosts, if there are several with links between them, and single devices; of
// many devices on hosts only the hosts.
std::vector<Islands> islands_of(const Cluster& cluster);

}  // namespace pipewright
