// Program + costs + cluster -> Timeline.
//
// Knows no planner, schedule or method by name: it executes actions as
// program.h describes them, on a clock.

#pragma once

#include <limits>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"
#include "pipewright/timeline/timeline.h"

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

struct SimulateOptions {
  int minibatches = 0;     // 0: as many as a steady state needs
  bool keep_spans = true;  // off for planners: only the summaries
  bool track_memory = true;
};

// The program must have passed validate().
Timeline simulate(const Program& program, const Costs& costs,
                  const SimulateOptions& options = {});

// Seconds per minibatch in the long run, that is, of an execution without end
// in which nobody gets ahead of the others for ever. In the runtime a sender
// that is many messages ahead waits for its receiver; here a repetition begins
// when all workers have done, and have received, the one `lead` before. The
// period is what all sufficient leads have in common.
//
// Workers that wait for each other do not notice: a longer and longer
// simulate() tends to the same. Parts of a program that do not, and yet share
// wires, would drift apart in it, the faster taking more of the wires than its
// repetitions need, until it has done all of them and leaves the wires alone;
// that is no steady state.
//
// Where wires are direct, the largest cycle mean of the body's dependency
// graph; where they choose, the time after which the execution is where it was.
// Equals the body's duration for a program that synchronises every minibatch.
struct Period {
  Seconds seconds;
  // False: it was not seen to come back, or it is another for every lead; see
  // period.cc.
  bool is_exact = true;
};
Period steady_state_period(const Program& program, const Costs& costs);

}  // namespace pipewright
