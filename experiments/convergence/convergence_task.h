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

inline const std::vector<std::string> kBaseArms = {
    "sync", "naive", "stash", "pipemare T1", "pipemare T1+T2"};

// A task in numbers, as the study's list has it and --set changes it. Its net:
//   cnn          convolutions with batch-norm and skips, on images in patches
//   chain        quick to train at any depth: blocks of a layer-norm and two
//                linear layers, with skips
//   transformer  encoder and decoder
//   gpt          decoder alone
//   resnet50     the zoo's, on images of one channel
struct Recipe {
  std::string task;
  std::string net = "cnn";
  std::string data = "digits";  // as `train --data` takes it
  int blocks = 1, width = 8;
  int patch = 1;  // side of the squares that the first convolution takes
  int minibatch = 64, microbatch = 16;
  int steps = 100;
  std::vector<double> rates = {};  // tried for each arm
  // Tried for each arm with T1: K, as a share of the asynchronous steps.
  std::vector<double> annealings = {0.25};
  double trial = 1;              // share of the steps that each is tried for
  std::vector<int> depths = {};  // none: one layer with weights per stage
  std::string optimizer = "sgd";
  double momentum = 0.9;  // adam's first beta
  double ramp = 0;        // share of the steps until the rate is all there
  double decay = 0.135;   // D of T2
  double warm_up = 0.2;   // T3: share of the steps
  std::vector<std::string> arms = kBaseArms;
  int seeds = 3;
  int tested_samples = 400;  // at most
  // Kind of device of each training, as `train --device` takes it. Trainings
  // side by side on one GPU have a stream each: cuda-stream.
  std::string device = "cpu";
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

// The share of right answers, or the loss, with these weights, computed at
// `place`.
double tested(const Task& task, const Trained& trained,
              at::Device place = at::kCPU);

}  // namespace pipewright
