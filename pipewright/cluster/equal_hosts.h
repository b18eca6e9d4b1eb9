// Whether the hosts of a cluster are interchangeable: what holds without one of
// them holds without any other.

#pragma once

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// They have the same devices in the same order, consecutive in the cluster, the
// same links inside, and links between any two of them that are equal and share
// what they use with equally many others.
bool has_equal_hosts(const Cluster& cluster);

}  // namespace pipewright
