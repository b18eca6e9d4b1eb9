// Program + costs + cluster -> Timeline.
//
// Knows no planner, schedule or method by name: it executes actions as
// program.h describes them, on a clock.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program.h"
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
  std::vector<Seconds> reductions;  // as in Program::reductions, ring
  std::vector<bool> blocking;  // per worker: busy while it sends and receives
};

// The program must have passed validate(): where a device has on-chip memory,
// what each worker holds at its peak decides how fast it is (tiers.h).
Result<Costs> costs_of(const Program& program, const Profile& profile,
                       const Cluster& cluster);

struct SimulateOptions {
  int minibatches = 0;     // 0: as many as a steady state needs
  bool keep_spans = true;  // off for planners: only the summaries
  bool track_memory = true;
};

// The program must have passed validate().
Timeline simulate(const Program& program, const Costs& costs,
                  const SimulateOptions& options = {});

// Seconds per minibatch in the long run, exactly: the largest cycle mean of the
// body's dependency graph. Equals the body's duration for a program that
// synchronises every minibatch.
Seconds steady_state_period(const Program& program, const Costs& costs);

}  // namespace pipewright
