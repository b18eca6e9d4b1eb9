// What each operation, transfer and reduction of a program takes.

#pragma once

#include <limits>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// How long things take. costs_of() makes it from a profile and a cluster; tests
// and `pipewright schedule` write it by hand.
struct Costs {
  // Seconds of each operation by ActionKind (compute kinds), and of its step.
  struct OperationCost {
    Seconds compute[5];
    Seconds step;
  };
  std::vector<OperationCost> operations;  // as in Program::operations
  // The way each transfer takes, and the shared resources on it.
  struct TransferCost {
    Seconds latency;
    BytesPerSecond bandwidth;  // infinity: takes latency only
    std::vector<Link::Use> uses;
    int half_duplex_wire = -1;  // transfers with the same number share a wire
  };
  std::vector<TransferCost> transfers;  // as in Program::transfers
  std::vector<SharedResource> resources;
  // A ring carries its bytes over all its links at once, at the pace of the
  // slowest, and divides what the links use with whoever else uses it.
  struct ReductionCost {
    Seconds latency;   // of all rounds together
    double bytes = 0;  // over each link, all rounds together
    BytesPerSecond bandwidth{std::numeric_limits<double>::infinity()};
    std::vector<std::vector<Link::Use>> links;
  };
  std::vector<ReductionCost> reductions;  // as in Program::reductions
  std::vector<bool> blocking;  // per worker: busy while it sends and receives
};

// The program must have passed validate(). Where a device has on-chip memory,
// what each worker may hold (memory_bound.h) decides how fast it is (tiers.h).
Result<Costs> costs_of(const Program& program, const Profile& profile,
                       const Cluster& cluster);

// What a ring has to send: 2 (r - 1) pieces of 1/r of the bytes over each of
// its r links, all links at once, one piece after the other.
struct RingPace {
  int size = 0;     // r; 0 and 1: nothing to send
  Seconds latency;  // the longest of a link

  // The load of each link, and all latencies; the links themselves stay.
  void set(Bytes bytes, Costs::ReductionCost& cost) const;
};
// Devices in the order of the ring. Fails with BadConfiguration where two
// neighbours cannot talk.
Result<RingPace> ring_pace(const Cluster& cluster,
                           const std::vector<DeviceId>& ring);

}  // namespace pipewright
