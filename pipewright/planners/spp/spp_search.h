// SPP's outer loop: of all numbers of stages and of replicas of the first, the
// partitions that are fastest once microbatches are put in order.

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

// The `most` fastest, the fastest first; ties go to fewer stages. Partitions
// whose load alone is no better than what was found are not put in order. Also
// looks at those that leave the first devices of the line idle, as the paper
// does not.
std::vector<SppCandidate> spp_candidates(const SppCosts& costs,
                                         const PartitionProblem& problem,
                                         Credits credits, std::size_t most);

}  // namespace pipewright
