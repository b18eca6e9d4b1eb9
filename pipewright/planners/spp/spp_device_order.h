// SPP's first step (RDO): devices in a line, so that well connected ones stand
// side by side and weak connections are crossed once. The partition then gives
// every stage a run of that line.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022: cut the graph of devices where the least bandwidth
// crosses (Stoer and Wagner, "A Simple Min-Cut Algorithm", JACM 1997), order
// both parts in the same way, and join the two lists. Rules for ties and the
// turning of lists at a joint are ours.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// Symmetric; 0 where two cannot talk. The diagonal is not looked at.
using Bandwidths = std::vector<std::vector<double>>;

struct MinCut {
  double weight = 0;      // bandwidth across
  std::vector<int> part;  // ascending; the part without the first vertex
};

// A cut of least weight of a graph with at least two vertices; of equal ones
// that Stoer and Wagner's phases find the most balanced, then the first found.
// O(n^3).
MinCut global_min_cut(const Bandwidths& bandwidths);

// Every vertex once. Equal bandwidths give 0, 1, 2, ...; the part with the
// smallest vertex stands first; a list is turned round only where that makes
// the bandwidth across the joint larger. Beyond kMostVerticesCut the order of
// greatest attachment stands in for the cuts.
std::vector<int> recursive_order(const Bandwidths& bandwidths);
inline constexpr int kMostVerticesCut = 256;

// What each pair of devices gets when all pairs talk at once: its link, or its
// share of what it shares with other pairs. So a cut's weight is what can cross
// it, and a host's network card is not counted once for each of its pairs.
Bandwidths shared_bandwidths(const Cluster& cluster);

// The order of a cluster's devices. Many devices are ordered by host first.
std::vector<DeviceId> recursive_device_order(const Cluster& cluster);

}  // namespace pipewright
