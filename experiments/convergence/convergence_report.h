// Arms side by side: what came out of several seeds, what it costs, and how
// long it took to be as good as synchronous training.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/convergence/convergence_arm.h"

namespace pipewright {

struct ArmResult {
  Arm arm;
  int depth = 1;   // it is compared at
  int stages = 1;  // it has: 2bw takes no more than microbatches
  ArmFacts facts;
  std::vector<Outcome> outcomes;  // one a seed
  std::string refusal;            // why there is none

  int num_diverged() const;
  double mean() const;    // of those that did not diverge
  double spread() const;  // largest less smallest of them
};

// Steps until the smoothed loss is down to `target`, the mean over seeds;
// negative where a seed does not get there.
double steps_to(const ArmResult& result, double target);

// Where synchronous training is after half of its steps.
double synchronous_level(const ArmResult& sync);

// The table, and a sentence for each claim of the paper: what holds here.
std::string report_text(const Task& task,
                        const std::vector<ArmResult>& results);
std::string verdict_text(const Task& task,
                         const std::vector<ArmResult>& results);

// The picture of the arms at one depth.
std::string plot_text(const Task& task, const std::vector<ArmResult>& results,
                      int depth);

}  // namespace pipewright
