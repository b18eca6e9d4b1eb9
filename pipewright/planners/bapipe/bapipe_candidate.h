// A candidate of BaPipe's exploration, and the table and the sentence that
// explain why one of them was chosen (bapipe.cc names the paper).

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct BaPipeCandidate {
  std::string schedule;   // "1F1B-SNO", "data-parallel"
  std::string partition;  // "inter-layer", "coarse, exact", ...
  int microbatch = 0;
  std::optional<Planned> planned;
  std::string refusal;         // why there is no plan
  bool fits = false;           // in the simulated memory
  bool link_limits = false;    // some cut's link is slower than its stage
  Bytes largest_memory;        // simulated
  std::string memory_verdict;  // "VCU118.0 needs 9 GB of 8 GB"
};
using BaPipeCandidates = std::vector<BaPipeCandidate>;

// Faster, or as fast with less memory. Both have plans.
bool is_better(const BaPipeCandidate& a, const BaPipeCandidate& b);

// One line per candidate, below a heading. `chosen` is an element of `all`.
std::vector<std::string> candidate_table(const BaPipeCandidates& all,
                                         const BaPipeCandidate& chosen,
                                         int minibatch);
std::string explanation(const BaPipeCandidates& all,
                        const BaPipeCandidate& chosen);

}  // namespace pipewright
