// Forward and backward of layers; see worker_layers.h.

#include "pipewright/runtime/execution/worker_layers.h"

#include <cmath>
#include <utility>

#include "pipewright/runtime/execution/layer_timer.h"

namespace pipewright {
namespace {

bool is_ours_alone(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
         tensor.is_non_overlapping_and_dense();
}

}  // namespace

WorkerLayers::WorkerLayers(const Network& network, const Program& program,
                           WorkerId id, const TrainingSettings& settings,
                           WorkerDevice& device)
    : network_(network),
      program_(program),
      settings_(settings),
      device_(device),
      weights_(network, program, id, settings, device),
      values_(network.model.num_layers()),
      gradients_(network.model.num_layers()),
      statistics_(network, program, id) {}

void WorkerLayers::restart(int minibatches, std::int64_t done,
                           const Trained& before) {
  done_ = done;
  weights_.restart(before.parameters);
  statistics_.restart(before.statistics, device_);
  values_.clear();
  gradients_.clear();
  loss_ = at::Tensor();
  losses_.restart(std::size_t{1} * minibatches * program_.num_microbatches);
}

void WorkerLayers::begin_run(const MicrobatchSource& source, RunGate& gate) {
  source_ = &source;
  gate_ = &gate;
}

std::vector<const void*> WorkerLayers::addresses() const {
  std::vector<const void*> result = weights_.addresses();
  const std::vector<const void*> own = statistics_.addresses();
  result.insert(result.end(), own.begin(), own.end());
  return result;
}

void WorkerLayers::compute(const Action& action, const ActionCode& code) {
  next_sample_ = 0;
  if (action.kind == ActionKind::Forward ||
      action.kind == ActionKind::Recompute)
    forward(action, code);
  else
    backward(action, code);
  for (const Value& value : code.frees) values_.drop(value, action.microbatch);
}

void WorkerLayers::end(const Action& action, const ActionCode& code,
                       bool is_overwritten) {
  samples_.clear();
  if (!loss_.defined()) return;
  const bool is_copied = is_overwritten || !is_ours_alone(loss_);
  losses_.add_late_means((is_copied ? loss_.clone() : loss_).view(1));
  losses_.add_late(absolute(action.microbatch), code.samples);
  loss_ = at::Tensor();
}

at::Tensor WorkerLayers::first_of(Value value, MicrobatchId microbatch,
                                  Samples samples) const {
  if (const Tensors* whole = values_.whole(value, microbatch, samples))
    return whole->front();
  return values_.read(value, microbatch, samples).at(0);
}

at::Tensor WorkerLayers::output_of(LayerId layer, MicrobatchId microbatch,
                                   Samples samples) const {
  const LayerId storage = network_.storage[layer.index()];
  at::Tensor output =
      first_of({ValueKind::Activation, storage}, microbatch, samples);
  if (storage != layer) return output_in(network_, layer, output);
  return output;
}

void WorkerLayers::begin(const Action& action, const ActionCode& code,
                         bool to_device) {
  if (action.kind == ActionKind::Forward)
    statistics_.begin(program_.minibatch_of(action.microbatch));
  samples_.clear();  // a failure may have left some
  if (action.kind != ActionKind::Forward &&
      action.kind != ActionKind::Recompute)
    return;
  for (const LayerCode& layer : code.layers)
    for (const Source& source : layer.layer->inputs) {
      if (!source.is_model_input()) continue;
      current_ = layer.id;
      const at::Tensor whole =
          (*source_)(source.input, absolute(action.microbatch));
      const std::int64_t count = code.samples.end - code.samples.first;
      const at::Tensor samples =
          whole.size(0) == count ? whole
                                 : whole.narrow(0, code.samples.first, count);
      samples_.push_back(samples);
    }
  if (reads_number(code))
    samples_.push_back(at::full({1}, absolute(action.microbatch), at::kLong));
  if (!to_device) return;
  for (at::Tensor& sample : samples_) sample = device_.bring(sample);
}

// The last of the samples is the number of the microbatch.
bool WorkerLayers::reads_number(const ActionCode& code) const {
  return code.draws && settings_.is_training() && device_.records();
}

void WorkerLayers::load_inputs(const LayerCode& layer, MicrobatchId microbatch,
                               Samples samples) {
  inputs_.clear();
  for (const Source& source : layer.layer->inputs)
    inputs_.push_back(source.is_model_input()
                          ? samples_[next_sample_++]
                          : output_of(source.layer, microbatch, samples));
}

// kept_value() without its copies.
void WorkerLayers::load_kept(const LayerCode& layer, MicrobatchId microbatch,
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
  kept_.inputs.clear();
  kept_.inputs.resize(inputs.size());
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

void WorkerLayers::forward(const Action& action, const ActionCode& code) {
  const bool again = action.kind == ActionKind::Recompute;
  const MicrobatchId m = action.microbatch;
  ForwardContext context{
      settings_.seed,          absolute(m), code.samples.first,
      settings_.is_training(),
      /*statistics=*/nullptr,  {},          &draws_};
  if (reads_number(code)) context.number = samples_.back();
  for (const LayerCode& layer : code.layers) {
    const LayerTimer timer(stopwatch_, LayerStopwatch::Part::Forward, layer.id,
                           device_);
    current_ = layer.id;
    context.statistics = again ? nullptr : statistics_.of(layer.id);
    load_inputs(layer, m, code.samples);
    const Tensors& weights =
        weights_.read_back(layer.id, action.version + layer.version_offset,
                           code.steps_back, moved_weights_);
    Forwarded forwarded = [&] {
      const LayerMemory memory(stopwatch_, LayerStopwatch::Part::Forward,
                               layer.id, nullptr, device_);
      return layer.function->forward(inputs_, weights, context);
    }();
    if (layer.is_loss && !again)
      record_loss(layer, m, code.samples, forwarded.output, weights,
                  context.statistics);
    moved_weights_.clear();
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

void WorkerLayers::record_loss(const LayerCode& layer, MicrobatchId microbatch,
                               Samples samples, const at::Tensor& loss,
                               const Tensors& weights, Tensors* statistics) {
  PartialLoss part{absolute(microbatch), samples, 0, {}};
  if (settings_.is_training() && !device_.computes_at_once()) {
    loss_ = loss;
    return;
  }
  part.mean = loss.item<double>();
  if (!settings_.is_training()) {
    const std::int64_t first =
        part.microbatch * program_.microbatch + samples.first;
    part.score =
        score_of(*layer.layer, *layer.function, inputs_,
                 settings_.evaluated_samples - first, weights, statistics);
  } else if (!std::isfinite(part.mean)) {
    throw LossIsNotFinite("the loss is " + std::to_string(part.mean));
  }
  losses_.add(part);
  gate_->add_loss(part.microbatch, samples.first, samples.end, part.mean);
}

void WorkerLayers::backward(const Action& action, const ActionCode& code) {
  for (const LayerCode& layer : code.layers) {
    current_ = layer.id;
    const bool has_weights =
        action.kind != ActionKind::BackwardInput && layer.has_parameters;
    if (action.kind != ActionKind::BackwardWeight) {
      const LayerTimer timer(stopwatch_, LayerStopwatch::Part::BackwardInput,
                             layer.id, device_);
      load_kept(layer, action.microbatch, code.samples);
      backward_inputs(layer, action, code);
      if (!has_weights) end_layer(layer, action.microbatch);
    }
    if (has_weights) {
      const LayerTimer timer(stopwatch_, LayerStopwatch::Part::BackwardWeight,
                             layer.id, device_);
      if (action.kind == ActionKind::BackwardWeight)
        load_kept(layer, action.microbatch, code.samples);
      backward_weights(layer, action.microbatch, code.samples);
      end_layer(layer, action.microbatch);
    }
  }
}

// Lets go of what it looked at, and of what nobody reads any more.
void WorkerLayers::end_layer(const LayerCode& layer, MicrobatchId microbatch) {
  kept_.inputs.clear();
  kept_.kept_private.clear();
  kept_.output = at::Tensor();
  for (const Value& value : layer.frees) values_.drop(value, microbatch);
}

void WorkerLayers::backward_inputs(const LayerCode& layer, const Action& action,
                                   const ActionCode& code) {
  const MicrobatchId m = action.microbatch;
  const Value value{ValueKind::Gradient, layer.id};
  if (layer.seed.defined()) values_.replace(value, m, code.samples, layer.seed);
  const Tensors* whole = values_.whole(value, m, code.samples);
  const at::Tensor cut =
      whole ? at::Tensor() : values_.read(value, m, code.samples).at(0);
  const at::Tensor& gradient = whole ? whole->front() : cut;
  carried_.clear();
  const Tensors& weights =
      weights_.read_back(layer.id, action.version + layer.version_offset,
                         code.steps_back, moved_weights_);
  Tensors of_inputs = [&] {
    const LayerMemory memory(stopwatch_, LayerStopwatch::Part::BackwardInput,
                             layer.id, &carried_, device_);
    if (adds_to_gradient(layer, m, code.samples, weights, gradient))
      return Tensors();
    return layer.function->backward_input(kept_, weights, gradient, &carried_);
  }();
  moved_weights_.clear();
  // The other half reads both.
  if (!carried_.empty() || !whole) {
    Tensors both = {gradient};
    both.insert(both.end(), carried_.begin(), carried_.end());
    values_.replace(value, m, code.samples, std::move(both));
  }
  for (std::size_t i = 0; i < of_inputs.size(); ++i)
    if (of_inputs[i].defined())
      add_gradient(layer.layer->inputs[i].layer, m, code.samples,
                   std::move(of_inputs[i]));
}

// Where the layer itself can add to the sum that other users have begun.
bool WorkerLayers::adds_to_gradient(const LayerCode& layer,
                                    MicrobatchId microbatch, Samples samples,
                                    const Tensors& weights,
                                    const at::Tensor& gradient) {
  const std::vector<Source>& inputs = layer.layer->inputs;
  if (inputs.size() != 1 || inputs[0].is_model_input()) return false;
  const Tensors* sum = values_.whole({ValueKind::Gradient, inputs[0].layer},
                                     microbatch, samples);
  if (!sum || !is_ours_alone(sum->front()) || !sum->front().is_contiguous())
    return false;
  at::Tensor whole = sum->front();
  return layer.function->add_backward_input(kept_, weights, gradient, whole);
}

// A running sum over the users so far, possibly begun by another worker, whose
// tensor is not ours to write to; nor is one that is another layer's, too.
void WorkerLayers::add_gradient(LayerId layer, MicrobatchId microbatch,
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

void WorkerLayers::backward_weights(const LayerCode& layer,
                                    MicrobatchId microbatch, Samples samples) {
  const Value value{ValueKind::Gradient, layer.id};
  const Tensors* both = values_.whole(value, microbatch, samples);
  Tensors cut;
  if (!both) {
    cut = values_.read(value, microbatch, samples);
    both = &cut;
  }
  carried_.assign(both->begin() + 1, both->end());
  Tensors& sums = gradients_.of(layer.id, program_.minibatch_of(microbatch));
  if (sums.empty()) {
    // What it makes stays: only adding to it needs temporary memory.
    sums = layer.function->backward_weight(kept_, both->front(), carried_);
  } else {
    const LayerMemory memory(stopwatch_, LayerStopwatch::Part::BackwardWeight,
                             layer.id, &carried_, device_);
    layer.function->add_backward_weight(kept_, both->front(), carried_, sums);
  }
  carried_.clear();
}

}  // namespace pipewright
