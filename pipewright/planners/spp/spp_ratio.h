// How far SPP's plan can be from the best one.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022, prove a ratio for the whole algorithm whose exact
// form we do not have. This one is ours, for equal devices:
//
//   T <= rho (1 + (4S-4)/M) T* + max A
//
//   T*   the fastest plan of any stages on any devices in any order, S its
//        number of stages
//   rho  the largest link cost of a pair of devices over the smallest
//   M    microbatches      A  all-reduce and update of a stage
//
// The stages of the best plan, with the same cuts and replicas, can be put on
// SPP's line of devices. That changes no compute, and each transfer costs at
// most rho times as much. The partition finds the smallest largest load W on
// the line, so W <= rho W* <= rho T*, and the order of microbatches takes at
// most (1 + (4S-4)/M) W + max A.
//
// What a plan prints is stronger, because the plan is known: T over the larger
// of W / rho and the bound for any plan (bounds.h). W / rho is a bound in SPP's
// cost model (spp_links.h), which overlaps neither an all-reduce with compute
// nor the two directions of a channel.

#pragma once

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// rho: over bandwidths and latencies of all pairs. A resource that several
// pairs share counts as if all of them used it at once. Infinite if a pair has
// no link or the devices are not all of one kind.
double link_spread(const Cluster& cluster);

}  // namespace pipewright
