// Whole pipelines side by side: a plan for a group of devices, copied to as
// many groups as there are. Each copy trains on its part of every microbatch,
// and gradients are summed over all copies. So a cluster of a thousand equal
// devices is planned like one of its hosts.
//
// Groups are runs of neighbouring devices: copy c of a plan for the first
// `size` devices is on the devices c * size and following.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// Whether the cluster is groups of `size` devices that nothing tells apart:
// the same kinds, and the same links inside, none of whose shared resources
// another group's links use.
bool has_equal_groups(const Cluster& cluster, int size);

// Numbers of devices that equal groups can have, smallest first: whole hosts
// where there are several, up to `most` devices, at least two groups.
std::vector<int> equal_groups(const Cluster& cluster, int most);

// The first devices, with what links them.
Result<Cluster> first_devices(const Cluster& cluster, int count);

// Worker w of the plan and its fellow replicas become as many times as many
// workers, copy by copy. Fails with BadConfiguration for replicas that take
// turns, and for stages that share some workers but not all.
Result<Plan> copies_of(const Plan& plan, int copies, int size);

}  // namespace pipewright
