// Plain training; see sequential.h.

#include "pipewright/runtime/reference/sequential.h"

#include <c10/core/InferenceMode.h>

#include <map>

#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/training/initial_parameters.h"

namespace pipewright {
namespace {

class SequentialTrainer {
 public:
  SequentialTrainer(const Model& model, const TrainingSettings& settings,
                    const MicrobatchSource& source, const MinibatchShape& shape)
      : network_(model),
        settings_(settings),
        source_(source),
        shape_(shape),
        num_layers_(model.num_layers()) {
    trained_.parameters = initial_parameters(model, settings.seed);
    state_.resize(trained_.parameters.size());
    for (const auto& function : network_.functions)
      trained_.statistics.push_back(function->initial_statistics());
  }

  void train(std::int64_t minibatch) {
    gradients_.assign(num_layers_, {});
    for (int i = 0; i < shape_.num_microbatches; ++i) {
      forward(minibatch * shape_.num_microbatches + i);
      backward();
    }
    step(minibatch);
  }

  Trained take() { return std::move(trained_); }

  Score evaluate(const Trained& trained) {
    trained_ = trained;
    const std::int64_t end = settings_.evaluated_samples;
    for (std::int64_t m = 0; m * shape_.microbatch < end; ++m) forward(m);
    return score_;
  }

 private:
  Tensors weights(const Layer& layer) const {
    Tensors result;
    for (const ParameterId id : layer.parameters)
      result.push_back(trained_.parameters[id.index()]);
    return result;
  }

  void forward(std::int64_t microbatch) {
    outputs_.assign(num_layers_, {});
    privates_.assign(num_layers_, {});
    ForwardContext context{settings_.seed, microbatch, 0,
                           settings_.is_training(), nullptr};
    for (std::size_t i = 0; i < num_layers_; ++i) {
      const Layer& layer = network_.model.layer(LayerId(i));
      Tensors inputs;
      for (const Source& from : layer.inputs)
        inputs.push_back(from.is_model_input() ? source_(from.input, microbatch)
                                               : outputs_[from.layer.index()]);
      context.statistics = &trained_.statistics[i];
      Forwarded done =
          network_.functions[i]->forward(inputs, weights(layer), context);
      outputs_[i] = done.output;
      privates_[i] = private_value(network_, LayerId(i), inputs, done);
      if (!is_loss(layer)) continue;
      trained_.losses.push_back(done.output.item<double>());
      if (!settings_.is_training())
        score_ += score_of(
            layer, *network_.functions[i], inputs,
            settings_.evaluated_samples - microbatch * shape_.microbatch,
            weights(layer), context.statistics);
    }
  }

  void backward() {
    Tensors of_outputs(num_layers_);
    for (std::size_t i = num_layers_; i-- > 0;) {
      const Layer& layer = network_.model.layer(LayerId(i));
      if (!network_.model.needs_gradient(LayerId(i))) continue;
      if (!network_.is_used[i])
        of_outputs[i] = seed_gradient(
            layer, shape_.microbatch,
            std::int64_t{shape_.microbatch} * shape_.num_microbatches);
      const KeptTensors kept =
          kept_value(network_, LayerId(i), privates_[i],
                     [&](LayerId other) { return outputs_[other.index()]; });
      Tensors carried;
      const Tensors of_inputs = network_.functions[i]->backward_input(
          kept, weights(layer), of_outputs[i], &carried);
      for (std::size_t j = 0; j < of_inputs.size(); ++j)
        if (of_inputs[j].defined())
          add(of_outputs[layer.inputs[j].layer.index()], of_inputs[j]);
      if (layer.parameters.empty()) continue;
      if (gradients_[i].empty())
        gradients_[i] = network_.functions[i]->backward_weight(
            kept, of_outputs[i], carried);
      else
        network_.functions[i]->add_backward_weight(kept, of_outputs[i], carried,
                                                   gradients_[i]);
    }
  }

  static void add(at::Tensor& sum, const at::Tensor& part) {
    sum = sum.defined() ? sum.add(part) : part;
  }

  void step(std::int64_t minibatch) {
    Gradients sums(network_.model.parameters().size());
    for (std::size_t i = 0; i < num_layers_; ++i) {
      const auto& parameters = network_.model.layer(LayerId(i)).parameters;
      for (std::size_t j = 0; j < parameters.size(); ++j)
        add(sums[parameters[j].index()], gradients_[i][j]);
    }
    if (settings_.max_norm > 0) clip(sums, norm_of(sums), settings_.max_norm);
    for (std::size_t id = 0; id < sums.size(); ++id)
      update_parameter(settings_, ParameterId(id), trained_.parameters[id],
                       sums[id], state_[id], 0, minibatch);
  }

  Network network_;
  const TrainingSettings& settings_;
  const MicrobatchSource& source_;
  const MinibatchShape shape_;
  const std::size_t num_layers_;
  Trained trained_;
  Score score_;                     // of an evaluation
  std::vector<Tensors> state_;      // by ParameterId
  std::vector<Tensors> gradients_;  // by LayerId, of the minibatch
  Tensors outputs_;                 // by LayerId, of the microbatch
  std::vector<Tensors> privates_;   // by LayerId, of the microbatch
};

}  // namespace

Trained train_sequentially(const Model& model, const TrainingSettings& settings,
                           const MicrobatchSource& source,
                           const MinibatchShape& shape, int minibatches) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  SequentialTrainer trainer(model, settings, source, shape);
  for (int t = 0; t < minibatches; ++t) trainer.train(t);
  return trainer.take();
}

Score evaluate_sequentially(const Model& model, const Trained& trained,
                            const MicrobatchSource& source, int microbatch,
                            std::int64_t samples) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  TrainingSettings settings;
  settings.evaluated_samples = samples;
  return SequentialTrainer(model, settings, source, {1, microbatch})
      .evaluate(trained);
}

}  // namespace pipewright
