// SPP's first step (RDO): puts the devices in a line, so that well connected
// devices are neighbours and slow links are crossed once. The partition then
// gives every stage a range of that line.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022: cut the graph of devices where the least bandwidth
// crosses (Stoer and Wagner, "A Simple Min-Cut Algorithm", JACM 1997), order
// both sides in the same way, and join the two lists. Ours: the rules for ties,
// that a list is reversed where that makes the joint faster, and that devices
// are named anew first (spp_canonical.h), so that the order does not depend on
// how the cluster names them.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"
#include "pipewright/planners/spp/spp_canonical.h"

namespace pipewright {

struct MinCut {
  double weight = 0;      // bandwidth across
  std::vector<int> part;  // ascending; the side without the first vertex
};

// A cut of smallest weight of a graph with at least two vertices. Of equal ones
// that the phases of Stoer and Wagner find, the most balanced, then the first.
// O(n^3).
MinCut global_min_cut(const Bandwidths& bandwidths);

// Every vertex once. Equal bandwidths give 0, 1, 2, ...; the side with the
// smallest vertex is first; a list is reversed only where that makes the
// bandwidth across the joint larger. More than kMaxVerticesCut vertices are
// ordered by attachment instead of cuts.
std::vector<int> recursive_order(const Bandwidths& bandwidths);
inline constexpr int kMaxVerticesCut = 256;

// The bandwidth of each pair of devices when all pairs send at once: that of
// its link, or its share of a resource that other pairs use too. So the weight
// of a cut is what can cross it, and a host's network card is not counted once
// per pair.
Bandwidths shared_bandwidths(const Cluster& cluster);

// The order of a cluster's devices. Two clusters that differ only in the order
// of their devices get the same bandwidths along it. More devices than
// kMaxVerticesCut are ordered by host first, and their names matter.
std::vector<DeviceId> recursive_device_order(const Cluster& cluster);

}  // namespace pipewright
