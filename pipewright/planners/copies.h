// Whole pipelines side by side: a plan for a group of devices is copied to all
// equal groups of a cluster. Each copy trains on its part of every microbatch,
// and gradients are summed over all copies. So a cluster of a thousand equal
// devices is planned like one of its hosts.
//
// A group is a range of `size` devices: copy c of a plan for the first group is
// on the devices c * size to (c + 1) * size - 1.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// Whether the cluster consists of equal groups of `size` devices: they have the
// same kinds and the same links inside, and share no resource with the links
// inside another group.
bool has_equal_groups(const Cluster& cluster, int size);

// The sizes that equal groups can have, ascending: whole hosts if there are
// several, at most `max_size` devices, at least two groups.
std::vector<int> equal_groups(const Cluster& cluster, int max_size);

// The first devices, and the links between them.
Result<Cluster> first_devices(const Cluster& cluster, int count);

// The plan for all copies: each stage has `copies` times as many workers, copy
// by copy. Fails with BadConfiguration for replicas that take turns, and for
// stages that share some but not all of their workers.
Result<Plan> copies_of(const Plan& plan, int copies, int size);

}  // namespace pipewright
