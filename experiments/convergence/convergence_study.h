// A task trained by every arm at several depths: first each arm with every
// learning rate and the first seed, for all steps or a share of them, then with
// the rate that left the least training loss and every seed. No arm is tuned
// more than another, and none by its test.

#pragma once

#include <string>
#include <vector>

#include "experiments/convergence/convergence_arm.h"

namespace pipewright {

// The first seed with one of the rates.
struct Trial {
  double rate = 0;
  Outcome outcome;
};

struct ArmResult {
  Arm arm;
  int depth = 1;   // it is compared at
  int stages = 1;  // it has: 2bw takes no more than microbatches
  ArmFacts facts;
  std::vector<Trial> trials;
  double rate = 0;                // the best of them
  std::vector<Outcome> outcomes;  // one a seed, at that rate
  std::string refusal;            // why there is none

  int num_diverged() const;
  double mean() const;    // of those that did not diverge
  double spread() const;  // largest less smallest of them
};

struct StudySettings {
  int seeds = 3;
  int threads = 1;
  std::vector<std::string> arms;  // none: all
};

// One after the other by depth. Says on stderr what is done.
std::vector<ArmResult> study(const Task& task, const StudySettings& settings);

}  // namespace pipewright
