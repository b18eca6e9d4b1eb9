// A worker's actions, one after the other; see worker.h.

#include "pipewright/runtime/worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

Samples samples_of(const Operation& operation) {
  return {operation.first_sample, operation.end_sample};
}

std::string name_of(ActionKind kind) {
  static const char* const kNames[] = {
      "forward",         "backward",  "input gradient",
      "weight gradient", "recompute", "send",
      "receive",         "reduce",    "step"};
  return kNames[static_cast<int>(kind)];
}

}  // namespace

Worker::Worker(const Network& network, const Program& program, WorkerId id,
               const TrainingSettings& settings)
    : network_(network),
      program_(program),
      id_(id),
      settings_(settings),
      group_of_layer_(static_cast<std::size_t>(network.model.num_layers()), -1),
      weights_(network, program, id, settings),
      values_(network.model.num_layers()) {
  for (std::size_t g = 0; g < program.weight_groups.size(); ++g)
    for (const LayerId layer : program.weight_groups[g].layers)
      group_of_layer_[layer.index()] = static_cast<std::int32_t>(g);
  for (const Operation& operation : program.operations) {
    if (operation.worker != id) continue;
    for (const LayerId layer : operation.forward)
      if (Tensors first =
              network.functions[layer.index()]->initial_statistics();
          !first.empty())
        statistics_[layer] = std::move(first);
  }
}

void Worker::run(int minibatches, std::int64_t done, const Trained& before,
                 const MicrobatchSource& source, Channel& channel,
                 std::chrono::steady_clock::time_point start) {
  const std::vector<Action> actions = unrolled(program_, id_, minibatches);
  const Lifetimes lifetimes(network_, program_, id_, actions);
  source_ = &source;
  channel_ = &channel;
  done_ = done;
  weights_.restart(before.parameters);
  for (auto& [layer, tensors] : statistics_)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      tensors[i] = before.statistics[layer.index()][i].clone();
  values_ = ValueStore(network_.model.num_layers());
  gradients_.clear();
  losses_.clear();
  spans_.clear();
  spans_.reserve(actions.size());
  const auto now = [&] {
    return Seconds(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
            .count());
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& action = actions[i];
    current_ = action;
    current_layer_ = LayerId();
    if (is_compute(action.kind)) wait_for_reads(action, lifetimes.of(i));
    if (action.kind == ActionKind::Step) wait_for_reductions(action);
    const Seconds begin = now();
    execute(action, lifetimes.of(i));
    if (!action.stage.is_none())
      spans_.push_back({id_, action.kind, action.stage, action.microbatch,
                        action.version, TransferId(), begin, now()});
  }
}

std::string Worker::activity() const {
  std::string text = "worker " + std::to_string(id_.value);
  if (!current_.stage.is_none())
    text += ", stage " + std::to_string(current_.stage.value);
  text += ", " + name_of(current_.kind) + " of microbatch " +
          std::to_string(absolute(current_.microbatch));
  if (!current_layer_.is_none())
    text += ", layer " + network_.model.layer(current_layer_).name;
  return text;
}

void Worker::execute(const Action& action, const ActionLife& life) {
  if (is_compute(action.kind)) {
    const Operation& operation = *program_.operation(id_, action.stage);
    const bool is_forward = action.kind == ActionKind::Forward ||
                            action.kind == ActionKind::Recompute;
    is_forward ? forward(operation, action) : backward(operation, action);
  } else if (action.kind == ActionKind::Send) {
    send(action);
  } else if (action.kind == ActionKind::Receive) {
    const auto& transfer =
        program_.transfers[static_cast<std::size_t>(action.index)];
    channel_->post(TransferId(action.index), transfer.is_keyed_by_version()
                                                 ? action.version
                                                 : action.microbatch);
  } else if (action.kind == ActionKind::Reduce) {
    reduce(action);
  } else {
    step(action);
  }
  for (const Value& value : life.frees) values_.drop(value, action.microbatch);
}

void Worker::wait_for_reads(const Action& action, const ActionLife& life) {
  for (const TransferId id : life.takes) {
    const Transfer& transfer = program_.transfers[id.index()];
    auto arrived = channel_->take(id, action.microbatch);
    for (std::size_t i = 0; i < arrived.size(); ++i)
      values_.add_piece(transfer.values[i], action.microbatch,
                        {transfer.first_sample, transfer.end_sample},
                        std::move(arrived[i]));
  }
  const ReadSet& set =
      program_.read_sets[static_cast<std::size_t>(action.index)];
  for (const TransferId id : set.transfers) {
    const Transfer& transfer = program_.transfers[id.index()];
    if (!transfer.is_keyed_by_version()) continue;
    for (const WeightRead& read : set.weights) {
      const std::int32_t version = action.version + read.offset;
      if (read.group != transfer.group || version <= 0 ||
          weights_.has(read.group, version))
        continue;
      weights_.install(read.group, version, channel_->take(id, version));
    }
  }
}

void Worker::wait_for_reductions(const Action& action) {
  const ReadSet& set =
      program_.read_sets[static_cast<std::size_t>(action.index)];
  for (const std::int32_t r : set.reductions) {
    const auto& parameters =
        program_.reductions[static_cast<std::size_t>(r)].parameters;
    const Tensors sums = channel_->reduced(r, action.microbatch);
    for (std::size_t i = 0; i < sums.size(); ++i)
      reduced_.emplace(parameters[i], sums[i]);
  }
}

std::int32_t Worker::version_of(LayerId layer, const Action& action) const {
  const std::int32_t group = group_of_layer_[layer.index()];
  const ReadSet& set =
      program_.read_sets[static_cast<std::size_t>(action.index)];
  for (const WeightRead& read : set.weights)
    if (read.group == group) return action.version + read.offset;
  return action.version;
}

at::Tensor Worker::output_of(LayerId layer, std::int32_t microbatch,
                             Samples samples) const {
  const LayerId storage = network_.storage[layer.index()];
  const Value value{ValueKind::Activation, storage};
  return output_in(network_, layer,
                   values_.read(value, microbatch, samples).at(0));
}

Tensors Worker::inputs_of(LayerId layer, std::int32_t microbatch,
                          Samples samples) {
  Tensors inputs;
  for (const Source& source : network_.model.layer(layer).inputs) {
    if (!source.is_model_input()) {
      inputs.push_back(output_of(source.layer, microbatch, samples));
      continue;
    }
    const at::Tensor whole = (*source_)(source.input, absolute(microbatch));
    inputs.push_back(
        whole.narrow(0, samples.first, samples.end - samples.first));
  }
  return inputs;
}

KeptTensors Worker::kept_of(LayerId layer, std::int32_t microbatch,
                            Samples samples) const {
  Tensors own;
  if (network_.has_private(layer))
    own = values_.read({ValueKind::Private, layer}, microbatch, samples);
  return kept_value(network_, layer, std::move(own), [&](LayerId other) {
    return output_of(other, microbatch, samples);
  });
}

void Worker::forward(const Operation& operation, const Action& action) {
  const bool again = action.kind == ActionKind::Recompute;
  const Samples samples = samples_of(operation);
  const std::int32_t m = action.microbatch;
  const StageDelay& delay = program_.delays[action.stage.index()];
  const double steps_back =
      again && delay.corrected ? delay.forward - delay.recompute : 0;
  ForwardContext context{settings_.seed,      absolute(m), samples.first,
                         program_.microbatch, true,        nullptr};
  for (const LayerId id : again ? operation.backward : operation.forward) {
    current_layer_ = id;
    const auto statistics = statistics_.find(id);
    context.statistics = again || statistics == statistics_.end()
                             ? nullptr
                             : &statistics->second;
    const Tensors inputs = inputs_of(id, m, samples);
    Forwarded forwarded = network_.functions[id.index()]->forward(
        inputs, weights_.read_back(id, version_of(id, action), steps_back),
        context);
    if (is_loss(network_.model.layer(id)) && !again)
      record_loss(m, samples, forwarded.output.item<double>());
    if (network_.has_private(id))
      values_.replace({ValueKind::Private, id}, m, samples,
                      private_value(network_, id, inputs, forwarded));
    if (network_.storage[id.index()] == id)
      values_.replace({ValueKind::Activation, id}, m, samples,
                      {forwarded.output});
  }
}

void Worker::record_loss(std::int32_t microbatch, Samples samples,
                         double loss) {
  if (!std::isfinite(loss))
    throw LossIsNotFinite("the loss is " + std::to_string(loss));
  losses_.push_back({absolute(microbatch), samples, loss});
}

void Worker::backward(const Operation& operation, const Action& action) {
  const Samples samples = samples_of(operation);
  for (auto at = operation.backward.rbegin(); at != operation.backward.rend();
       ++at) {
    current_layer_ = *at;
    if (!network_.model.needs_gradient(*at)) continue;
    const bool has_parameters = !network_.model.layer(*at).parameters.empty();
    if (action.kind == ActionKind::BackwardWeight && !has_parameters) continue;
    const KeptTensors kept = kept_of(*at, action.microbatch, samples);
    if (action.kind != ActionKind::BackwardWeight)
      backward_inputs(*at, operation, action, kept);
    if (action.kind != ActionKind::BackwardInput && has_parameters)
      backward_weights(*at, action, kept, samples);
  }
}

void Worker::backward_inputs(LayerId id, const Operation& operation,
                             const Action& action, const KeptTensors& kept) {
  const std::int32_t m = action.microbatch;
  const Samples samples = samples_of(operation);
  const Layer& layer = network_.model.layer(id);
  const Value value{ValueKind::Gradient, id};
  if (!network_.is_used[id.index()])
    values_.replace(value, m, samples,
                    {seed_gradient(layer, operation.num_samples(),
                                   std::int64_t{program_.microbatch} *
                                       program_.num_microbatches)});
  Tensors gradient = {values_.read(value, m, samples).at(0)};
  const StageDelay& delay = program_.delays[action.stage.index()];
  const double steps_back =
      delay.corrected ? delay.forward - delay.backward : 0;
  Tensors carried;
  const Tensors of_inputs = network_.functions[id.index()]->backward_input(
      kept, weights_.read_back(id, version_of(id, action), steps_back),
      gradient[0], &carried);
  gradient.insert(gradient.end(), carried.begin(), carried.end());
  values_.replace(value, m, samples, std::move(gradient));
  for (std::size_t i = 0; i < of_inputs.size(); ++i)
    if (of_inputs[i].defined())
      add_gradient(layer.inputs[i].layer, m, samples, of_inputs[i]);
}

// A running sum over the users so far, possibly begun by another worker, whose
// tensor is not ours to write to.
void Worker::add_gradient(LayerId layer, std::int32_t microbatch,
                          Samples samples, const at::Tensor& gradient) {
  const Value value{ValueKind::Gradient, layer};
  at::Tensor sum = gradient;
  if (values_.has(value, microbatch))
    sum = values_.read(value, microbatch, samples).at(0).add(gradient);
  values_.replace(value, microbatch, samples, {sum});
}

void Worker::backward_weights(LayerId id, const Action& action,
                              const KeptTensors& kept, Samples samples) {
  Tensors gradient =
      values_.read({ValueKind::Gradient, id}, action.microbatch, samples);
  const Tensors carried(gradient.begin() + 1, gradient.end());
  Tensors parts = network_.functions[id.index()]->backward_weight(
      kept, gradient[0], carried);
  Tensors& sums = gradients_[action.microbatch / program_.num_microbatches][id];
  if (sums.empty()) {
    sums = std::move(parts);
    return;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add_(parts[i]);
}

// A program is made from a profile, which does not say that a layer needs no
// gradient; nothing is sent for it.
bool Worker::is_nothing(const Value& value) const {
  return value.kind == ValueKind::Gradient &&
         !network_.model.needs_gradient(value.layer);
}

void Worker::send(const Action& action) {
  const TransferId id(action.index);
  const Transfer& transfer = program_.transfers[id.index()];
  if (transfer.is_keyed_by_version()) {
    channel_->send(id, action.version,
                   weights_.copies(transfer.group, action.version));
    return;
  }
  std::vector<Tensors> values;
  for (const Value& value : transfer.values)
    values.push_back(is_nothing(value) ? Tensors()
                                       : values_.read(value, action.microbatch,
                                                      {transfer.first_sample,
                                                       transfer.end_sample}));
  channel_->send(id, action.microbatch, std::move(values));
}

void Worker::reduce(const Action& action) {
  const Reduction& reduction =
      program_.reductions[static_cast<std::size_t>(action.index)];
  const auto& wanted = reduction.parameters;
  const auto& of_layers =
      gradients_[action.microbatch / program_.num_microbatches];
  std::vector<Contribution> contributions;
  for (const auto& [layer, sums] : of_layers) {
    const auto& parameters = network_.model.layer(layer).parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (std::find(wanted.begin(), wanted.end(), parameters[i]) !=
          wanted.end())
        contributions.push_back({parameters[i], layer, sums[i]});
  }
  channel_->contribute(action.index, action.microbatch,
                       std::move(contributions));
}

void Worker::step(const Action& action) {
  const Operation& operation = *program_.operation(id_, action.stage);
  std::map<ParameterId, at::Tensor> gradients = std::move(reduced_);
  reduced_.clear();
  const auto minibatch = action.microbatch / program_.num_microbatches;
  auto& of_layers = gradients_[minibatch];
  // Uses of a tied parameter inside the stage, in ascending order of layers.
  std::map<ParameterId, at::Tensor> local;
  for (const LayerId layer : operation.backward) {
    const auto sums = of_layers.find(layer);
    if (sums == of_layers.end()) continue;
    const auto& parameters = network_.model.layer(layer).parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      auto [sum, is_new] = local.emplace(parameters[i], sums->second[i]);
      if (!is_new) sum->second = sum->second.add(sums->second[i]);
    }
    of_layers.erase(sums);
  }
  gradients.merge(local);
  if (of_layers.empty()) gradients_.erase(minibatch);
  weights_.step(action.stage, action.version, done_ + action.version - 1,
                gradients);
}

}  // namespace pipewright
