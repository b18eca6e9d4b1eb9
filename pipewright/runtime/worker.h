// One worker of a run: it goes through its actions one after the other and
// blocks only where it reads what another worker has to give. It knows its own
// values and weights, and its channel.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "pipewright/plan/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/lifetimes.h"
#include "pipewright/runtime/network.h"
#include "pipewright/runtime/training.h"
#include "pipewright/runtime/value_store.h"
#include "pipewright/runtime/weights/weight_store.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// A loss that is no number, or infinite: training cannot go on. Thrown in the
// forward, so no stage gets to the step of that minibatch.
class LossIsNotFinite : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The loss of some samples of a microbatch.
struct PartialLoss {
  std::int64_t microbatch = 0;
  Samples samples;
  double mean = 0;
};

class Worker {
 public:
  // All outlive the worker.
  Worker(const Network& network, const Program& program, WorkerId id,
         const TrainingSettings& settings);

  // `done` minibatches have been trained before; the run starts with the
  // parameters and statistics of `before`. Throws what a kernel throws, and
  // Cancelled.
  void run(int minibatches, std::int64_t done, const Trained& before,
           const MicrobatchSource& source, Channel& channel,
           std::chrono::steady_clock::time_point start);

  // What it was doing when it threw: "worker 1, stage 0, forward of microbatch
  // 3, layer fc1".
  std::string activity() const;

  std::vector<PartialLoss> take_losses() { return std::move(losses_); }
  std::vector<Span> take_spans() { return std::move(spans_); }
  const WeightStore& weights() const { return weights_; }
  WeightStore& weights() { return weights_; }
  // By LayerId, of the layers it ran forward.
  const std::map<LayerId, Tensors>& statistics() const { return statistics_; }
  std::size_t num_values_held() const { return values_.num_values(); }

 private:
  void execute(const Action& action, const ActionLife& life);
  void wait_for_reads(const Action& action, const ActionLife& life);
  void wait_for_reductions(const Action& action);
  void forward(const Operation& operation, const Action& action);
  void backward(const Operation& operation, const Action& action);
  void backward_inputs(LayerId layer, const Operation& operation,
                       const Action& action, const KeptTensors& kept);
  void backward_weights(LayerId layer, const Action& action,
                        const KeptTensors& kept, Samples samples);
  void record_loss(std::int32_t microbatch, Samples samples, double loss);
  bool is_nothing(const Value& value) const;
  void send(const Action& action);
  void reduce(const Action& action);
  void step(const Action& action);

  Tensors inputs_of(LayerId layer, std::int32_t microbatch, Samples samples);
  at::Tensor output_of(LayerId layer, std::int32_t microbatch,
                       Samples samples) const;
  KeptTensors kept_of(LayerId layer, std::int32_t microbatch,
                      Samples samples) const;
  void add_gradient(LayerId layer, std::int32_t microbatch, Samples samples,
                    const at::Tensor& gradient);
  std::int32_t version_of(LayerId layer, const Action& action) const;
  std::int64_t absolute(std::int32_t microbatch) const {
    return done_ * program_.num_microbatches + microbatch;
  }

  const Network& network_;
  const Program& program_;
  const WorkerId id_;
  const TrainingSettings& settings_;
  std::vector<std::int32_t> group_of_layer_;  // -1 for none

  WeightStore weights_;
  ValueStore values_;
  std::map<LayerId, Tensors> statistics_;
  std::map<ParameterId, at::Tensor> reduced_;  // for the Step that comes now
  // Weight gradients by minibatch of the run and layer.
  std::map<std::int32_t, std::map<LayerId, Tensors>> gradients_;
  std::vector<PartialLoss> losses_;
  std::vector<Span> spans_;

  // Of the run in progress.
  const MicrobatchSource* source_ = nullptr;
  Channel* channel_ = nullptr;
  std::int64_t done_ = 0;
  Action current_;
  LayerId current_layer_;
};

}  // namespace pipewright
