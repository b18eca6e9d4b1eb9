// The time in which two ranges of devices exchange a microbatch, and one range
// reduces its gradients.
//
// Departures from the SPP paper (spp.cc), so that the cost is that of what a
// plan does:
//   - Replicas exchange the overlaps of their slices. In the paper every sender
//     sends an equal part to every receiver.
//   - A ring uses the links between neighbours. The paper takes the slowest
//     link of all pairs.
//   - Latency counts.
//   - A resource that several links share (a network card) carries the sum of
//     their bytes.

#pragma once

#include <span>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/cluster/cluster.h"

namespace pipewright {

struct LinkCost {
  double per_byte = 0;  // seconds; infinite: some pair has no link
  double fixed = 0;     // seconds
};

class LinkCosts {
 public:
  explicit LinkCosts(const Cluster& cluster);

  // Per byte of the whole microbatch, in the slower direction.
  LinkCost channel(std::span<const DeviceId> from, std::span<const DeviceId> to,
                   int microbatch);
  // Per byte of the gradients that every device holds.
  LinkCost ring(std::span<const DeviceId> devices);

 private:
  // start() forgets all transfers, add() adds one that runs at the same time as
  // the others, total() is the time of all together.
  void start();
  void add(DeviceId from, DeviceId to, double share);
  LinkCost total() const;

  const Cluster& cluster_;
  std::vector<double> carried_;  // by resource and direction
  std::vector<std::size_t> touched_;
  LinkCost slowest_;
};

}  // namespace pipewright
