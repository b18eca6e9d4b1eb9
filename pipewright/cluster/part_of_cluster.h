// A cluster with fewer devices: a group of equal ones, or those that remain
// when hosts are lost.

#pragma once

#include <span>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"

namespace pipewright {

// These devices in this order, with their names and the links between them.
// Hosts are numbered anew, in the order of their first device. Fails as
// ClusterBuilder::build() does.
Result<Cluster> part_of_cluster(const Cluster& cluster,
                                std::span<const DeviceId> devices);

}  // namespace pipewright
