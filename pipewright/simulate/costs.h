// How long each operation, transfer and reduction of a program takes.

#pragma once

#include <limits>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// Made by costs_of() from a profile and a cluster, by given_costs.h from given
// times, by in_process_costs.h for the threads of one process.
struct Costs {
  struct OperationCost {
    Seconds compute[5];  // by ActionKind
    Seconds step;
  };
  std::vector<OperationCost> operations;  // as in Program::operations

  struct TransferCost {
    Seconds latency;
    BytesPerSecond bandwidth;  // infinity: takes latency only
    std::vector<Link::Use> uses;
    int half_duplex_link = -1;  // transfers with the same number share a link
    // The sender streams: the transfer may start while the action before its
    // Send makes what it carries (streaming.h), and ends no earlier than that
    // action. Its reader waits for all of it.
    bool streams = false;
  };
  std::vector<TransferCost> transfers;  // as in Program::transfers
  std::vector<SharedResource> resources;

  // A ring carries its bytes over all its links at once, at the rate of the
  // slowest, and shares what the links use with others.
  struct ReductionCost {
    Seconds latency;   // of all rounds together
    double bytes = 0;  // over each link, all rounds together
    BytesPerSecond bandwidth{std::numeric_limits<double>::infinity()};
    std::vector<std::vector<Link::Use>> links;
  };
  std::vector<ReductionCost> reductions;  // as in Program::reductions

  // Per worker: the share of a transfer's time in which its sends and receives
  // keep it busy. 0: none, 1: they block.
  std::vector<double> blocking;

  // Per worker: memory beyond what the program holds. Empty: none.
  struct DeviceMemory {
    Bytes base;
    double fragmentation = 0;  // as a share of what the program holds
  };
  std::vector<DeviceMemory> memory;

  // Workers that share hardware, a unit, slow each other down while they
  // compute at once.
  struct Contention {
    std::vector<int> units;  // per worker
    // How many times as long an action takes while that many workers of its
    // unit compute: from one on, and more than are listed as the last. Empty:
    // nobody slows another down.
    std::vector<double> slowdowns;
  };
  Contention contention;
};

// The program must have passed validate(). Where a device has on-chip memory,
// the most that a worker can hold (memory_bound.h) decides how fast it is
// (tiers.h).
Result<Costs> costs_of(const Program& program, const Profile& profile,
                       const Cluster& cluster);

// What a sum has to send: 2 (r - 1) pieces of 1/r of the bytes over each of the
// r links of a ring, all links at once; and how long it waits (sum_rounds.h).
struct RingPace {
  int size = 0;     // r; 0 and 1: nothing to send
  Seconds latency;  // the longest of a link

  // Sets the bytes over each link, and the latency. The links do not change.
  void set(Bytes bytes, Costs::ReductionCost& cost) const;
};
// Devices in the order of the ring. Fails with BadConfiguration where two
// neighbours have no link.
Result<RingPace> ring_pace(const Cluster& cluster,
                           const std::vector<DeviceId>& ring);

}  // namespace pipewright
