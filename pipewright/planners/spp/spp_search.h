// SPP's outer loop: over all numbers of stages and of replicas of the first
// stage, the partitions that are fastest with their microbatch order.

#pragma once

#include <vector>

#include "pipewright/planners/spp/spp_costs.h"

namespace pipewright {

// A partition at one microbatch size, by SPP's own cost model.
struct SppCandidate {
  const SppCosts* costs = nullptr;
  std::vector<PartitionStage> stages;
  std::vector<StageLoad> loads;
  Credits credits = Credits::Rounds;
  Seconds load;      // W: no order of this partition is faster
  Seconds promised;  // T
  Seconds bound() const {
    return order_bound(loads, costs->num_microbatches(), credits);
  }
};

struct SppCandidates {
  std::vector<SppCandidate> best;
  Seconds least_load = Seconds::max();  // W: no partition has a smaller one
};

// At most `max_candidates`, the fastest first; of equal ones those with fewer
// stages. Partitions whose load alone is no better than the candidates found
// are not ordered. Unlike the paper, also tries partitions that leave the first
// devices of the line idle.
SppCandidates spp_candidates(const SppCosts& costs,
                             const PartitionProblem& problem, Credits credits,
                             std::size_t max_candidates);

}  // namespace pipewright
