// What is trained: a model, samples to learn from and others to be tested on,
// and how. The same for every method.

#pragma once

#include <string>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/optimizers/optimizer_choice.h"

namespace pipewright {

struct Task {
  std::string name;
  Model model;
  Dataset train, test;
  int minibatch = 64;
  int microbatch = 16;
  int steps = 0;
  OptimizerChoice optimizer = {};
  double rate = 0.05;
  bool counts_right_answers = true;  // else the test's loss is the result

  int microbatches() const { return minibatch / microbatch; }
  // Layers that have weights: the most stages that make sense.
  int num_weighted() const;
};

// A CNN with skips of so many blocks on images of 8x8 that come with us.
Result<Task> digits_task(int blocks, int channels, int steps);
// As deep as it takes on the same images, and quick to train: residual blocks
// of a norm and two linear layers, so 3 layers with weights each and 3 beside.
Result<Task> deep_task(int blocks, int features, int steps);
// The CNN on $PIPEWRIGHT_DATA/fashion-mnist-10k, pooled once.
Result<Task> fashion_task(int blocks, int channels, int steps);
// A small transformer that guesses the next byte of a text.
Result<Task> text_task(const std::string& file, int blocks, int steps);

// The share of right answers, or the loss, with these weights.
double tested(const Task& task, const Trained& trained);

}  // namespace pipewright
