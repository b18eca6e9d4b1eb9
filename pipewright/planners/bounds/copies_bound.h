// A lower bound on the step of plans that are copied to equal groups of whole
// hosts (copies.h): how long network cards need to sum their gradients.
//
// A layer's gradients are summed over the c copies at least, so over k >= c
// hosts, and the card of each of them carries 2 (k - 1)/k >= 2 (c - 1)/c of the
// layer's parameter bytes. All layers are in every group, so some host of its h
// hosts has the h-th part of all bytes, or more.
//
// A synchronous step sums the gradients of a layer after its last backward:
// before its first sum a host waits at least for the least work that precedes
// one (work_before_sums), shared by all devices without loss, and after the
// last for the latency of a sum over c devices.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

// For groups as has_equal_groups() allows them.
Seconds copies_bound(const Problem& problem, const EqualGroups& groups);

// A second bound: the least work of all layers, shared without loss by the
// devices of all groups.
Seconds copies_work(const Problem& problem, const EqualGroups& groups);

}  // namespace pipewright
