// A task trained by every arm at several depths: first each arm with every
// learning rate and the first seed, for all steps or a share of them, then with
// the rate that left the least training loss and every seed. No arm is tuned
// more than another, and none by its test.

#pragma once

#include <functional>
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

// One thread at a time calls it.
using StudyEnded =
    std::function<void(const Task& task, const std::vector<ArmResult>&)>;

// One task after the other, but no thread waits for another as long as any task
// has something to train. Says on stderr what is done, and calls `ended` where
// all of a task is. A task without any of the arms wanted ends with no results.
void study(const std::vector<Task>& tasks, const StudySettings& settings,
           const StudyEnded& ended);

}  // namespace pipewright
