// The layers of a worker's compute actions; see worker.h.

#include <cmath>
#include <optional>
#include <utility>

#include "pipewright/runtime/execution/tensor_heap.h"
#include "pipewright/runtime/execution/worker.h"

namespace pipewright {
namespace {

bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
         tensor.is_non_overlapping_and_dense();
}

// Tells a stopwatch, if there is one, how long it lived.
class LayerTimer {
 public:
  LayerTimer(LayerStopwatch* stopwatch, LayerStopwatch::Part part,
             LayerId layer)
      : stopwatch_(stopwatch), part_(part), layer_(layer) {
    if (stopwatch_) start_ = LayerStopwatch::Clock::now();
  }
  ~LayerTimer() {
    if (stopwatch_)
      stopwatch_->add(part_, layer_, LayerStopwatch::Clock::now() - start_);
  }
  LayerTimer(const LayerTimer&) = delete;
  LayerTimer& operator=(const LayerTimer&) = delete;

 private:
  LayerStopwatch* stopwatch_;
  LayerStopwatch::Part part_;
  LayerId layer_;
  LayerStopwatch::Clock::time_point start_;
};

Bytes size_of(const Tensors& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return Bytes(static_cast<std::int64_t>(bytes));
}

// The same for the memory that a layer's function takes only while it runs, and
// for what one half of backward carries to the other.
class LayerMemory {
 public:
  LayerMemory(LayerStopwatch* stopwatch, LayerStopwatch::Part part,
              LayerId layer, const Tensors* carried)
      : stopwatch_(stopwatch), part_(part), layer_(layer), carried_(carried) {
    if (stopwatch_) memory_.emplace();
  }
  ~LayerMemory() {
    if (!stopwatch_) return;
    Bytes taken = memory_->taken();
    if (carried_) taken += size_of(*carried_);
    stopwatch_->add_workspace(part_, layer_, taken);
  }
  LayerMemory(const LayerMemory&) = delete;
  LayerMemory& operator=(const LayerMemory&) = delete;

 private:
  LayerStopwatch* stopwatch_;
  LayerStopwatch::Part part_;
  LayerId layer_;
  const Tensors* carried_;
  std::optional<PassingMemory> memory_;
};

}  // namespace

at::Tensor Worker::first_of(Value value, std::int32_t microbatch,
                            Samples samples) const {
  if (const Tensors* whole = values_.whole(value, microbatch, samples))
    return whole->front();
  return values_.read(value, microbatch, samples).at(0);
}

at::Tensor Worker::output_of(LayerId layer, std::int32_t microbatch,
                             Samples samples) const {
  const LayerId storage = network_.storage[layer.index()];
  at::Tensor output =
      first_of({ValueKind::Activation, storage}, microbatch, samples);
  return storage == layer ? output : output_in(network_, layer, output);
}

void Worker::load_inputs(const LayerCode& layer, std::int32_t microbatch,
                         Samples samples) {
  inputs_.clear();
  for (const Source& source : layer.layer->inputs) {
    if (!source.is_model_input()) {
      inputs_.push_back(output_of(source.layer, microbatch, samples));
      continue;
    }
    const at::Tensor whole = (*source_)(source.input, absolute(microbatch));
    const std::int64_t count = samples.end - samples.first;
    inputs_.push_back(
        whole.size(0) == count ? whole : whole.narrow(0, samples.first, count));
  }
}

// kept_value() without its copies.
void Worker::load_kept(const LayerCode& layer, std::int32_t microbatch,
                       Samples samples) {
  Tensors& own = kept_.kept_private;
  own.clear();
  if (layer.has_private) {
    const Value value{ValueKind::Private, layer.id};
    if (const Tensors* whole = values_.whole(value, microbatch, samples))
      own.assign(whole->begin(), whole->end());
    else
      own = values_.read(value, microbatch, samples);
  }
  const std::vector<Source>& inputs = layer.layer->inputs;
  kept_.inputs.assign(inputs.size(), at::Tensor());
  for (std::size_t i = inputs.size(); i-- > 0;) {
    if (!layer.cost->keeps_input[i]) continue;
    if (inputs[i].is_model_input()) {
      kept_.inputs[i] = std::move(own.back());
      own.pop_back();
    } else {
      kept_.inputs[i] = output_of(inputs[i].layer, microbatch, samples);
    }
  }
  kept_.output = layer.cost->keeps_output
                     ? output_of(layer.id, microbatch, samples)
                     : at::Tensor();
}

// A minibatch that fails leaves no trace in them.
void Worker::keep_statistics(std::int32_t minibatch) {
  if (statistics_.empty() || minibatch <= statistics_minibatch_) return;
  statistics_minibatch_ = minibatch;
  for (const auto& [layer, tensors] : statistics_) {
    Tensors& copies = statistics_before_[layer];
    copies.resize(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (copies[i].defined())
        copies[i].copy_(tensors[i]);
      else
        copies[i] = tensors[i].clone();
  }
}

void Worker::forward(const Action& action, const ActionCode& code) {
  const bool again = action.kind == ActionKind::Recompute;
  const std::int32_t m = action.microbatch;
  if (!again) keep_statistics(minibatch(m));
  ForwardContext context{settings_.seed, absolute(m), code.samples.first,
                         settings_.is_training(), nullptr};
  for (const LayerCode& layer : code.layers) {
    const LayerTimer timer(stopwatch_, LayerStopwatch::Part::Forward, layer.id);
    current_layer_ = layer.id;
    context.statistics = nullptr;
    if (!again && !statistics_.empty())
      if (const auto own = statistics_.find(layer.id); own != statistics_.end())
        context.statistics = &own->second;
    load_inputs(layer, m, code.samples);
    const Tensors& weights = weights_.read_back(
        layer.id, action.version + layer.version_offset, code.steps_back);
    Forwarded forwarded = [&] {
      const LayerMemory memory(stopwatch_, LayerStopwatch::Part::Forward,
                               layer.id, nullptr);
      return layer.function->forward(inputs_, weights, context);
    }();
    if (layer.is_loss && !again)
      record_loss(layer, m, code.samples, forwarded.output.item<double>());
    if (layer.has_private)
      values_.replace({ValueKind::Private, layer.id}, m, code.samples,
                      private_value(network_, layer.id, inputs_, forwarded));
    if (layer.has_storage)
      values_.replace({ValueKind::Activation, layer.id}, m, code.samples,
                      std::move(forwarded.output));
    inputs_.clear();
    for (const Value& value : layer.frees) values_.drop(value, m);
  }
}

void Worker::record_loss(const LayerCode& layer, std::int32_t microbatch,
                         Samples samples, double loss) {
  PartialLoss part{absolute(microbatch), samples, loss, {}};
  if (!settings_.is_training()) {
    const std::int64_t first =
        part.microbatch * program_.microbatch + samples.first;
    part.score = score_of(*layer.layer, *layer.function, inputs_,
                          settings_.evaluated_samples - first);
  } else if (!std::isfinite(loss)) {
    throw LossIsNotFinite("the loss is " + std::to_string(loss));
  }
  losses_.push_back(part);
}

void Worker::backward(const Action& action, const ActionCode& code) {
  for (const LayerCode& layer : code.layers) {
    current_layer_ = layer.id;
    const bool has_weights =
        action.kind != ActionKind::BackwardInput && layer.has_parameters;
    if (action.kind != ActionKind::BackwardWeight) {
      const LayerTimer timer(stopwatch_, LayerStopwatch::Part::BackwardInput,
                             layer.id);
      load_kept(layer, action.microbatch, code.samples);
      backward_inputs(layer, action, code);
      if (!has_weights) end_layer(layer, action.microbatch);
    }
    if (has_weights) {
      const LayerTimer timer(stopwatch_, LayerStopwatch::Part::BackwardWeight,
                             layer.id);
      if (action.kind == ActionKind::BackwardWeight)
        load_kept(layer, action.microbatch, code.samples);
      backward_weights(layer, action.microbatch, code.samples);
      end_layer(layer, action.microbatch);
    }
  }
}

// Lets go of what it looked at, and of what nobody reads any more.
void Worker::end_layer(const LayerCode& layer, std::int32_t microbatch) {
  kept_.inputs.clear();
  kept_.kept_private.clear();
  kept_.output = at::Tensor();
  for (const Value& value : layer.frees) values_.drop(value, microbatch);
}

void Worker::backward_inputs(const LayerCode& layer, const Action& action,
                             const ActionCode& code) {
  const std::int32_t m = action.microbatch;
  const Value value{ValueKind::Gradient, layer.id};
  if (layer.seed.defined()) values_.replace(value, m, code.samples, layer.seed);
  const at::Tensor gradient = first_of(value, m, code.samples);
  carried_.clear();
  const Tensors& weights = weights_.read_back(
      layer.id, action.version + layer.version_offset, code.steps_back);
  Tensors of_inputs = [&] {
    const LayerMemory memory(stopwatch_, LayerStopwatch::Part::BackwardInput,
                             layer.id, &carried_);
    return layer.function->backward_input(kept_, weights, gradient, &carried_);
  }();
  // The other half reads both.
  if (!carried_.empty() || !values_.whole(value, m, code.samples)) {
    Tensors both = {gradient};
    both.insert(both.end(), carried_.begin(), carried_.end());
    values_.replace(value, m, code.samples, std::move(both));
  }
  for (std::size_t i = 0; i < of_inputs.size(); ++i)
    if (of_inputs[i].defined())
      add_gradient(layer.layer->inputs[i].layer, m, code.samples,
                   std::move(of_inputs[i]));
}

// A running sum over the users so far, possibly begun by another worker, whose
// tensor is not ours to write to; nor is one that is another layer's, too.
void Worker::add_gradient(LayerId layer, std::int32_t microbatch,
                          Samples samples, at::Tensor gradient) {
  const Value value{ValueKind::Gradient, layer};
  const Tensors* sum = values_.whole(value, microbatch, samples);
  if (sum && is_ours_alone(sum->front())) {
    sum->front().add_(gradient);
    return;
  }
  if (values_.has(value, microbatch))
    gradient = first_of(value, microbatch, samples).add(gradient);
  values_.replace(value, microbatch, samples, std::move(gradient));
}

void Worker::backward_weights(const LayerCode& layer, std::int32_t microbatch,
                              Samples samples) {
  const Value value{ValueKind::Gradient, layer.id};
  const Tensors* both = values_.whole(value, microbatch, samples);
  Tensors cut;
  if (!both) {
    cut = values_.read(value, microbatch, samples);
    both = &cut;
  }
  carried_.assign(both->begin() + 1, both->end());
  Tensors& sums = gradients_.of(layer.id, minibatch(microbatch));
  if (sums.empty()) {
    // What it makes stays: only adding to it takes memory in passing.
    sums = layer.function->backward_weight(kept_, both->front(), carried_);
  } else {
    const LayerMemory memory(stopwatch_, LayerStopwatch::Part::BackwardWeight,
                             layer.id, &carried_);
    layer.function->add_backward_weight(kept_, both->front(), carried_, sums);
  }
  carried_.clear();
}

}  // namespace pipewright
