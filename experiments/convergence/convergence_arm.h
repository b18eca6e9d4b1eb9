// One way of training a task: a method, PipeMare's techniques, a number of
// stages. All stages are on one thread or GPU in turn: their delays, and so the
// bits, are those of as many devices.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/convergence/convergence_task.h"
#include "pipewright/plan/method.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

struct Arm {
  std::string name;
  Method method = Method::Sync;
  bool rescheduling = false;  // T1
  bool correction = false;    // T2
  double warm_up = 0;         // T3: share of the steps
  bool recompute = false;     // on one thread each stage from its own input
  std::string tuned_as = {};  // the arm whose rate and K it takes; none: it
                              // tries its own
};
// Those that the recipe names, of: sync, naive, stash, 2bw, pipemare T1,
// pipemare T2, pipemare T1+T2, pipemare T1+T2+T3, pipemare T1+T2+recompute.
std::vector<Arm> arms(const Recipe& recipe);

// One run of an arm.
struct Training {
  int stages = 1;
  int steps = 1;
  double rate = 0;
  double annealing = 0;  // K of T1, a share of the asynchronous steps
  std::uint64_t seed = 1;
  int place = 0;  // among trainings side by side: which stream of a GPU
};

struct Outcome {
  std::vector<double> losses;  // of the steps; short where it diverged
  double result = 0;           // tested()
  bool diverged = false;       // a loss that is not a number, or nothing learnt
  std::string origin;          // "2026-11-16 on x86_64 with 16 cores"
  double seconds = 0;          // that its steps took; 0: not known

  double final_loss() const;  // of the last tenth; infinite where it diverged
};

// Fails where the method cannot have so many stages, or the device is not here.
Result<Outcome> outcome_of(const Task& task, const Arm& arm,
                           const Training& training);

// What the arm costs on as many devices as stages, simulated: stages take one
// second forward and two backward, transfers none.
struct ArmFacts {
  double delay = 0;        // mean over stages, of forward, in steps
  double utilisation = 1;  // share of time that devices compute
  Seconds step;
  Bytes weights;      // copies, gradients, optimizer, velocity; all devices
  Bytes activations;  // kept for backward; all devices
};
Result<ArmFacts> facts_of(const Task& task, const Arm& arm, int stages);

}  // namespace pipewright
