// What is trained: a model, samples to learn from and others to be tested on,
// and how. The same for every method.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/runtime/data/dataset.h"

namespace pipewright {

// A task in numbers, as the study's list has it and --set changes it.
//   digits         a CNN with skips on images of 8x8 that come with us
//   fashion-mnist  the same on images of 28x28, in patches of 4x4
//   deep-P         on digits, P layers with weights and quick to train: blocks
//                  of a norm and two linear layers, with skips
//   translation    an encoder-decoder transformer, German words to English
struct Recipe {
  std::string task;
  int blocks = 1, width = 8;
  int minibatch = 64, microbatch = 16;
  int steps = 100;
  std::vector<double> rates = {};  // tried for each arm; the best one is kept
  double trial = 1;                // share of the steps that a rate is tried
  std::vector<int> depths = {};    // none: one layer with weights a stage
  double momentum = 0.9;           // adam's first beta
  double ramp = 0;           // share of the steps until the rate is all there
  double annealing = 0.25;   // share of the asynchronous steps until T1 ends
  double decay = 0.135;      // D of T2
  double warm_up = 0;        // T3, where it is an arm: share of the steps
  int tested_samples = 400;  // at most
};

struct Task {
  Recipe recipe;
  Model model;
  Dataset train, test;
  OptimizerChoice optimizer = {};
  bool counts_right_answers = true;  // else the test's loss is the result

  int microbatches() const { return recipe.minibatch / recipe.microbatch; }
  // Layers that have weights: the most stages that make sense.
  int num_weighted() const;
};

// Fails with MissingInput where its data is not installed.
Result<Task> make_task(const Recipe& recipe);

// The share of right answers, or the loss, with these weights.
double tested(const Task& task, const Trained& trained);

}  // namespace pipewright
