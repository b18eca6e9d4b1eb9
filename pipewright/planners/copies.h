// Whole pipelines side by side: a plan for a group of devices is copied to all
// equal groups of a cluster. Each copy trains on its part of every microbatch,
// and gradients are summed over all copies. So a cluster of a thousand equal
// devices is planned like one of its hosts.
//
// Copies need not have equally many samples: of a microbatch of 100 samples,
// three copies have 33, 33 and 34. Nor need groups use all devices: of seven
// hosts, three groups of two leave one.
//
// Where replicas take turns at microbatches, copies do so, too: copy c of C has
// the microbatches m with m % C == c.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// Whether the groups are equal: they have the same kinds of devices and the
// same links inside, and share no resource with the links inside another group.
bool has_equal_groups(const Cluster& cluster, const EqualGroups& groups);

// As many groups of `size` devices as there are.
EqualGroups groups_of(const Cluster& cluster, int size);

// The equal groups that a cluster can be divided into, by ascending size: whole
// hosts if there are several, at most `max_size` devices, at least two groups,
// and few devices that are in none.
std::vector<EqualGroups> equal_groups(const Cluster& cluster, int max_size);

// The first devices, and the links between them.
Result<Cluster> first_devices(const Cluster& cluster, int count);

// Whether replicas of the plan take turns.
bool takes_turns(const Plan& plan);

// Whether each worker of all copies has a sample of each microbatch, and sample
// counts that are given are those of every copy; where copies take turns,
// whether they have equally many samples.
bool have_samples(const Plan& plan, const EqualGroups& groups, int minibatch);

// The plan for all copies, with a minibatch of so many samples and as many
// microbatches, or where copies take turns with microbatches of the same size:
// each stage has `count` times as many workers, copy by copy. Fails with
// BadConfiguration for replicas that take turns at minibatches that overlap,
// for stages that share some but not all of their workers, and without samples
// for all.
Result<Plan> copies_of(const Plan& plan, const EqualGroups& groups,
                       int minibatch);

}  // namespace pipewright
