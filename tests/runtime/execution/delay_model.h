// Delayed training on one thread, straight from the papers' rules: what every
// asynchronous method is compared with.
//
// Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN Training", MLSys
// 2021; Narayanan et al., "PipeDream", SOSP 2019, and "Memory-Efficient
// Pipeline-Parallel DNN Training" (2BW), ICML 2021. It has a ring of weight
// versions per stage and goes through microbatches one by one. It knows neither
// schedules nor programs nor workers, and shares no code with them: only the
// layers' functions and the optimizer are the same.
//
// Symbols: P stages, s = 0..P-1; N microbatches a minibatch; a = P-1-s. When
// stage s of 1F1B runs the forward of microbatch m, it has done the backwards
// of m-a microbatches; when it runs the backward, of m.
//
//   method         forward of m reads     backward of m reads     delay
//   sync           m/N                    the same                0
//   stash          max(0, m-a)/N          the same                a/N
//   vertical sync  max(0, m-(P-1))/N      the same                (P-1)/N
//   2bw            max(0, m/N - 1)        the same                1
//   naive          max(0, m-a)/N          m/N                     a/N
//   pipemare       max(0, m-a)/N          m/N, moved back         a/N
//
// PipeMare Recompute: of a segment that ends at stage e, stage s recomputes
// when it has done the backwards of m-(e-s) microbatches, and reads those
// weights moved back by (a-(e-s))/N steps. A stage by itself is a segment.
//
// A layer whose forward and backward are at two stages reads as the earlier.

#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "pipewright/plan/method.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright::testing {

struct DelayedPipeline {
  int stages = 1;
  std::vector<int> forward_stage, backward_stage;  // by layer
  std::vector<bool> recompute;                     // by stage
  std::vector<int> segment_end;                    // by stage; e
  int microbatches = 1;                            // N
  int microbatch = 1;                              // samples
  Method method = Method::PipeMare;
  // T2 is off: pipemare with T1 alone.
  bool uncorrected = false;
};

class DelayModel {
 public:
  DelayModel(const Model& model, DelayedPipeline pipeline,
             const TrainingSettings& settings, const MicrobatchSource& source);

  // Fills the pipeline, trains on and drains it. With Sync the same stages wait
  // for each other: a warm-up.
  void run(int minibatches) { run(minibatches, pipeline_.method); }
  void run(int minibatches, Method method);

  const Trained& trained() const { return trained_; }

 private:
  using Weights = std::map<int, at::Tensor>;  // by parameter
  // One stage: its newest versions, oldest first, and what steps leave behind.
  struct Ring {
    std::vector<Weights> versions;
    int newest = 0;  // since the run's start
    std::map<int, Tensors> state;
    std::vector<Weights> velocities;  // at those versions
  };

  int ahead(int stage) const { return pipeline_.stages - 1 - stage; }
  int forward_version(int layer, int m) const;
  int backward_version(int layer, int m) const;
  int recompute_version(int layer, int m) const;
  double delay(int stage) const;
  double distance(int stage) const;
  double furthest(int parameter, double (DelayModel::*of)(int) const) const;
  Tensors weights(int layer, int version, double moved_back) const;

  void forward_all(int m);
  void forward(int layer, int m, int version, double moved_back, bool again);
  void recompute(int stage, int m);
  void backward_all(int m);
  void backward(int layer, int m);
  void step(int stage, const std::map<int, at::Tensor>& gradients);
  void step_all();

  const Model& model_;
  const DelayedPipeline pipeline_;
  const TrainingSettings& settings_;
  const MicrobatchSource& source_;
  const std::vector<std::unique_ptr<const LayerFunction>> functions_;
  std::vector<Ring> rings_;            // by stage
  std::vector<std::set<int>> users_;   // stages, by parameter
  Method now_ = Method::Sync;          // of the run in progress
  std::int64_t done_ = 0;              // minibatches
  std::int64_t first_microbatch_ = 0;  // of the run
  Trained trained_;
  // Of the microbatch in progress, by layer.
  std::vector<Tensors> inputs_, privates_;
  Tensors outputs_, gradients_;
  // Of the minibatch, by layer.
  std::vector<Tensors> sums_;
};

}  // namespace pipewright::testing
