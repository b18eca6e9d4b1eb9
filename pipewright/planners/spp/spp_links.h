// What it costs two runs of devices to exchange a microbatch, and one run to
// add up its gradients.
//
// Departures from SPP's paper, so that its cost is that of what a plan really
// does: replicas exchange the overlaps of their slices, where the paper has
// every sender talk to every receiver with an equal part; a ring uses the links
// between neighbours, where the paper takes the slowest of all pairs; latency
// counts; and a resource that several links share (a network card) carries the
// sum of their bytes.

#pragma once

#include <span>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/cluster/cluster.h"

namespace pipewright {

struct LinkCost {
  double per_byte = 0;  // seconds; infinity: some pair cannot talk
  double fixed = 0;     // seconds
};

class LinkCosts {
 public:
  explicit LinkCosts(const Cluster& cluster);

  // Per byte of the whole microbatch, one way, the slower of the two.
  LinkCost channel(std::span<const DeviceId> from, std::span<const DeviceId> to,
                   int microbatch);
  // Per byte of the gradients, which every device has.
  LinkCost ring(std::span<const DeviceId> devices);

 private:
  // Starts afresh, adds transfers that go on at the same time, and tells what
  // they take.
  void start();
  void add(DeviceId from, DeviceId to, double share);
  LinkCost total() const;

  const Cluster& cluster_;
  std::vector<double> carried_;  // by resource and direction
  std::vector<std::size_t> touched_;
  LinkCost slowest_;
};

}  // namespace pipewright
