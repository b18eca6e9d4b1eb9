// A task trained by every arm at several depths: first each arm with every
// learning rate, with T1 also every K, and the first seed, for all steps or a
// share of them, then with what left the least training loss and every seed. No
// arm is tuned more than another, and none by its test.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/convergence/training_store.h"

namespace pipewright {

// The first seed with one of the rates and one K.
struct Trial {
  double rate = 0;
  double annealing = 0;
  std::optional<Outcome> outcome;  // none where it was not trained
};

struct ArmResult {
  Arm arm;
  int depth = 1;   // it is compared at
  int stages = 1;  // it has: 2bw takes no more than microbatches
  ArmFacts facts;
  std::vector<Trial> trials;
  double rate = 0, annealing = 0;  // of the best of them
  std::vector<Outcome> outcomes;   // one per seed, with these
  std::string refusal;             // why there is none

  int num_diverged() const;
  double mean() const;        // of those that did not diverge
  double spread() const;      // largest less smallest of them
  double final_loss() const;  // mean of those
  int num_missing_trials() const;
};

struct StudySettings {
  int threads = 1;
  std::vector<std::string> arms;  // none: all
  std::string results;            // folder of the TrainingStore; none: empty.
                                  // Processes that share one share the work
  bool only_stored = false;       // nothing is trained
};

// One thread at a time calls it.
using StudyEnded =
    std::function<void(const Task& task, const std::vector<ArmResult>&)>;

// One task after the other, but no thread waits for another as long as any task
// has something to train. Says on stderr what is done, and calls `ended` where
// all of a task is. A task without any of the arms wanted ends with no results.
// Fails where the store does.
Result<void> study(const std::vector<Task>& tasks,
                   const StudySettings& settings, const StudyEnded& ended);

}  // namespace pipewright
