// The layers of a worker: what its compute actions do, forward and backward,
// with the values, weights and gradients that they work on. It knows neither
// when an action runs, nor where messages come from and go to (worker.h).

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/gradient_sums.h"
#include "pipewright/runtime/execution/layer_statistics.h"
#include "pipewright/runtime/execution/layer_stopwatch.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/execution/recorded_actions.h"
#include "pipewright/runtime/execution/run_gate.h"
#include "pipewright/runtime/execution/run_losses.h"
#include "pipewright/runtime/execution/value_store.h"
#include "pipewright/runtime/execution/worker_code.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/runtime/weights/weight_store.h"

namespace pipewright {

class WorkerLayers {
 public:
  // All outlive this object.
  WorkerLayers(const Network& network, const Program& program, WorkerId id,
               const TrainingSettings& settings, WorkerDevice& device);

  // Before every run: `done` minibatches have been trained, and the run starts
  // with the parameters and statistics of `before`.
  void restart(int minibatches, std::int64_t done, const Trained& before);
  // Both outlive the run.
  void begin_run(const MicrobatchSource& source, RunGate& gate);
  // Times every layer from now on; null: none.
  void time(LayerStopwatch* stopwatch) { stopwatch_ = stopwatch; }
  LayerStopwatch* stopwatch() const { return stopwatch_; }

  // Before a compute action: reads its samples of the model's inputs, and takes
  // them to the device, unless they are to stay on the host.
  void begin(const Action& action, const ActionCode& code, bool to_device);
  // Does a compute action, kernel by kernel.
  void compute(const Action& action, const ActionCode& code);
  // After a compute action: keeps its loss, if that is to be read later; a copy
  // of it, if later actions overwrite it.
  void end(const Action& action, const ActionCode& code, bool is_overwritten);

  // The layer in progress, until it is left; none between.
  LayerId current() const { return current_; }
  void leave() { current_ = LayerId(); }

  ActionState state() { return {values_, gradients_, samples_, loss_}; }
  ValueStore& values() { return values_; }
  const ValueStore& values() const { return values_; }
  WeightStore& weights() { return weights_; }
  const WeightStore& weights() const { return weights_; }
  GradientSums& gradients() { return gradients_; }
  const GradientSums& gradients() const { return gradients_; }
  const LayerStatistics& statistics() const { return statistics_; }
  RunLosses& losses() { return losses_; }
  // Of weights and statistics.
  std::vector<const void*> addresses() const;

  // Whether a layer has drawn random numbers that no later run can repeat.
  bool has_drawn() const { return draws_; }
  std::int64_t num_done() const { return done_; }
  // Counted from the first of the training.
  std::int64_t absolute(MicrobatchId microbatch) const {
    return done_ * program_.num_microbatches + microbatch.value;
  }

 private:
  void forward(const Action& action, const ActionCode& code);
  void backward(const Action& action, const ActionCode& code);
  void backward_inputs(const LayerCode& layer, const Action& action,
                       const ActionCode& code);
  void backward_weights(const LayerCode& layer, MicrobatchId microbatch,
                        Samples samples);
  void end_layer(const LayerCode& layer, MicrobatchId microbatch);
  void record_loss(const LayerCode& layer, MicrobatchId microbatch,
                   Samples samples, const at::Tensor& loss,
                   const Tensors& weights, Tensors* statistics);
  bool reads_number(const ActionCode& code) const;
  void load_inputs(const LayerCode& layer, MicrobatchId microbatch,
                   Samples samples);
  void load_kept(const LayerCode& layer, MicrobatchId microbatch,
                 Samples samples);
  at::Tensor output_of(LayerId layer, MicrobatchId microbatch,
                       Samples samples) const;
  at::Tensor first_of(Value value, MicrobatchId microbatch,
                      Samples samples) const;
  bool adds_to_gradient(const LayerCode& layer, MicrobatchId microbatch,
                        Samples samples, const Tensors& weights,
                        const at::Tensor& gradient);
  void add_gradient(LayerId layer, MicrobatchId microbatch, Samples samples,
                    at::Tensor gradient);

  const Network& network_;
  const Program& program_;
  const TrainingSettings& settings_;
  WorkerDevice& device_;

  WeightStore weights_;
  ValueStore values_;
  GradientSums gradients_;
  LayerStatistics statistics_;
  RunLosses losses_;

  // Of the run in progress.
  const MicrobatchSource* source_ = nullptr;
  RunGate* gate_ = nullptr;
  std::int64_t done_ = 0;

  LayerStopwatch* stopwatch_ = nullptr;

  // Of the layer or action in progress; kept for their memory.
  LayerId current_;
  Tensors inputs_, carried_;
  // Of the model's inputs, in the order of their use; then the microbatch's
  // number, if a layer draws by it.
  Tensors samples_;
  std::size_t next_sample_ = 0;
  at::Tensor loss_;  // to be read after the last action
  bool draws_ = false;
  KeptTensors kept_;
  Tensors moved_weights_;
};

}  // namespace pipewright
