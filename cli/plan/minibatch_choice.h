// --minibatch auto: the minibatch size with the largest throughput that fits.
//
// A larger minibatch fills the pipeline better and spreads reduction and update
// over more samples, but each size gains less than the one before. So the
// smallest size is taken whose throughput is within two percent of the best.

#pragma once

#include <string>
#include <vector>

#include "cli/plan/planning.h"

namespace pipewright::cli {

struct TriedMinibatch {
  int minibatch = 0;
  Candidate candidate;

  double throughput() const;  // samples per second; 0 without a plan
};

struct MinibatchChoice {
  std::vector<TriedMinibatch> tried;
  int minibatch = 0;
  bool was_interrupted = false;  // before all sizes were tried

  // Of the chosen minibatch, which is one of those tried.
  const Candidate& chosen() const;
};

// Tries as many samples as there are devices, twice as many, and so on. The
// budget is divided among the sizes. Ctrl-C ends this: the choice is among
// those tried until then. Fails as load_problem() does, and with the refusal of
// the smallest size if none has a plan.
Result<MinibatchChoice> choose_minibatch(const ProblemOptions& options,
                                         const std::string& planner,
                                         Method method, Watch& watch);

std::string minibatch_table(const MinibatchChoice& choice, int width);
Json minibatch_json(const MinibatchChoice& choice);

}  // namespace pipewright::cli
