// Rings of weight versions; see weight_store.h.
//
// Correction (B. Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN
// Training", MLSys 2021, technique T2; our reconstruction of its constants):
//   after each step  velocity <- gamma velocity + (1 - gamma) (w_new - w_old)
//   backward reads   w - d velocity,  d = forward delay - backward delay
//   gamma = D^(1/d)  with D = TrainingSettings::correction_decay

#include "pipewright/runtime/weights/weight_store.h"

#include <algorithm>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

// A copy of this takes some milliseconds of the 0.4 s of a run.
constexpr std::size_t kMaxCopiedState = std::size_t{8} << 20;

}  // namespace

WeightStore::WeightStore(const Network& network, const Program& program,
                         WorkerId worker, const TrainingSettings& settings,
                         WorkerDevice& device)
    : network_(network),
      program_(program),
      settings_(settings),
      device_(device),
      held_of_group_(program.weight_groups.size(), -1),
      place_of_layer_(network.model.num_layers()) {
  for (const HeldWeights& held : program.workers[worker.index()].held) {
    const auto index = static_cast<std::int32_t>(held_.size());
    held_.push_back(make_held(held, worker));
    held_of_group_[held.group.index()] = index;
    const auto& layers = held_.back().group->layers;
    for (std::size_t i = 0; i < layers.size(); ++i)
      place_of_layer_[layers[i].index()] = {index, i};
  }
}

WeightStore::Held WeightStore::make_held(const HeldWeights& held,
                                         WorkerId worker) const {
  Held result;
  result.group = &program_.weight_group(held.group);
  result.is_owned = program_.operation(worker, result.group->owner) != nullptr;
  result.ring.resize(held.versions);
  auto& parameters = result.parameters;
  for (const LayerId layer : result.group->layers) {
    auto& places = result.places.emplace_back();
    for (const ParameterId id : network_.model.layer(layer).parameters) {
      const auto known = std::find(parameters.begin(), parameters.end(), id);
      places.push_back(known - parameters.begin());
      if (known == parameters.end()) parameters.push_back(id);
    }
  }
  for (const ParameterId id : parameters)
    result.rules.push_back(step_rule(program_, result.group->owner, id));
  result.state.resize(parameters.size());
  result.velocity.resize(parameters.size());
  return result;
}

WeightStore::Slot& WeightStore::Held::slot(std::int32_t version) {
  return ring[std::max(version, 0) % ring.size()];
}
const WeightStore::Slot& WeightStore::Held::slot(std::int32_t version) const {
  return ring[std::max(version, 0) % ring.size()];
}

void WeightStore::Held::arrange(Slot& target) const {
  target.by_layer.clear();
  for (const auto& of_layer : places) {
    Tensors& layer = target.by_layer.emplace_back();
    for (const std::size_t place : of_layer)
      layer.push_back(target.tensors[place]);
  }
}

void WeightStore::restart(const Tensors& parameters) {
  for (Held& held : held_) {
    for (Slot& old : held.ring) old.version = Slot::kNone;
    held.newest = 0;
    Slot& first = held.ring[0];
    first.tensors.resize(held.parameters.size());
    for (std::size_t i = 0; i < held.parameters.size(); ++i)
      renew(first.tensors[i], parameters[held.parameters[i].index()], device_);
    held.arrange(first);
    first.version = 0;
  }
}

const Tensors& WeightStore::read(LayerId layer, std::int32_t version) const {
  static const Tensors kNone;
  const Place& place = place_of_layer_[layer.index()];
  if (place.held < 0) return kNone;
  const Slot& found = held_[place.held].slot(version);
  PIPEWRIGHT_CHECK(found.version == std::max(version, 0),
                   "version " + std::to_string(version) + " of layer " +
                       std::to_string(layer.value) + " is not held");
  return found.by_layer[place.layer];
}

const Tensors& WeightStore::read_back(LayerId layer, std::int32_t version,
                                      double steps, Tensors& moved) const {
  const Tensors& plain = read(layer, version);
  const Place& place = place_of_layer_[layer.index()];
  steps = std::min(steps, static_cast<double>(version));
  if (steps <= 0 || place.held < 0) return plain;
  const Held& held = held_[place.held];
  moved.clear();
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const at::Tensor& velocity = held.velocity[held.places[place.layer][i]];
    moved.push_back(velocity.defined() ? at::sub(plain[i], velocity, steps)
                                       : plain[i]);
  }
  return moved;
}

const WeightStore::Held& WeightStore::held_group(WeightGroupId group) const {
  const std::int32_t index = held_of_group_[group.index()];
  PIPEWRIGHT_CHECK(index >= 0, "a group of weights that is not held");
  return held_[index];
}

bool WeightStore::has(WeightGroupId group, std::int32_t version) const {
  return held_group(group).slot(version).version == std::max(version, 0);
}

void WeightStore::install(WeightGroupId group, std::int32_t version,
                          const Values& layers) {
  auto& held = const_cast<Held&>(held_group(group));
  Slot& target = held.slot(version);
  target.tensors.resize(held.parameters.size());
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    for (std::size_t i = 0; i < layers[layer].size(); ++i)
      target.tensors[held.places[layer][i]] = layers[layer][i];
  held.arrange(target);
  target.version = version;
}

void WeightStore::copy(WeightGroupId group, std::int32_t version,
                       Values& layers) const {
  const Slot& from = held_group(group).slot(version);
  PIPEWRIGHT_CHECK(from.version == version, "weights to send are not held");
  layers = from.by_layer;
  for (Tensors& layer : layers)
    for (at::Tensor& tensor : layer) tensor = tensor.clone();
}

void WeightStore::step(StageId stage, std::int32_t version, std::int64_t step,
                       const Gradients& gradients) {
  for (Held& held : held_)
    if (held.is_owned && held.group->owner == stage)
      step_group(held, version, step, gradients);
}

void WeightStore::step_group(Held& held, std::int32_t version,
                             std::int64_t step, const Gradients& gradients) {
  const Slot& from = held.slot(version - 1);
  Slot& to = held.slot(version);
  PIPEWRIGHT_CHECK(from.version == version - 1, "a step without its weights");
  if (to.tensors.empty()) {
    for (const at::Tensor& tensor : from.tensors)
      to.tensors.push_back(at::empty_like(tensor));
    held.arrange(to);
  }
  for (std::size_t i = 0; i < held.parameters.size(); ++i)
    step_parameter(held, i, from.tensors[i], to.tensors[i], step,
                   gradients.at(held.parameters[i].index()));
  to.version = version;
  held.newest = version;
}

// `from` and `to` are one tensor where the ring has one slot.
void WeightStore::step_parameter(Held& held, std::size_t place,
                                 const at::Tensor& from, at::Tensor& to,
                                 std::int64_t step,
                                 const at::Tensor& gradient) const {
  const StepRule& rule = held.rules[place];
  const bool moves = rule.averaging > 0;
  const at::Tensor before = moves && &from == &to ? from.clone() : from;
  if (&from != &to) to.copy_(from);
  update_parameter(settings_, held.parameters[place], to, gradient,
                   held.state[place], rule.delay, step);
  if (!moves) return;
  const double gamma = velocity_decay(settings_, rule.averaging);
  at::Tensor& velocity = held.velocity[place];
  if (!velocity.defined()) velocity = at::zeros_like(before);
  velocity.mul_(gamma).add_(to.sub(before), 1 - gamma);
}

std::vector<const void*> WeightStore::addresses() const {
  std::vector<const void*> result;
  for (const Held& held : held_)
    for (const Slot& slot : held.ring)
      for (const at::Tensor& tensor : slot.tensors)
        result.push_back(tensor.const_data_ptr());
  return result;
}

std::map<ParameterId, at::Tensor> WeightStore::newest() const {
  std::map<ParameterId, at::Tensor> result;
  for (const Held& held : held_)
    if (held.is_owned)
      for (std::size_t i = 0; i < held.parameters.size(); ++i)
        result.emplace(held.parameters[i], held.slot(held.newest).tensors[i]);
  return result;
}

std::map<ParameterId, std::int32_t> WeightStore::newest_versions() const {
  std::map<ParameterId, std::int32_t> result;
  for (const Held& held : held_)
    if (held.is_owned)
      for (const ParameterId id : held.parameters)
        result.emplace(id, held.newest);
  return result;
}

std::map<ParameterId, WeightStore::StepState> WeightStore::step_states() const {
  std::map<ParameterId, StepState> result;
  for (const Held& held : held_) {
    if (!held.is_owned) continue;
    for (std::size_t i = 0; i < held.parameters.size(); ++i) {
      StepState state;
      for (const at::Tensor& tensor : held.state[i])
        state.optimizer.push_back(host_copy(tensor));
      if (held.velocity[i].defined())
        state.velocity = host_copy(held.velocity[i]);
      result.emplace(held.parameters[i], std::move(state));
    }
  }
  return result;
}

bool WeightStore::remember() {
  remembered_.clear();
  std::size_t bytes = 0;
  for (const Held& held : held_) {
    for (const Tensors& tensors : held.state)
      for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
    for (const at::Tensor& tensor : held.velocity)
      if (tensor.defined()) bytes += tensor.nbytes();
  }
  if (bytes > kMaxCopiedState && !settings_.always_remembers) return false;
  remembered_ = step_states();
  return true;
}

void WeightStore::restore(const std::map<ParameterId, StepState>& states) {
  for (Held& held : held_) {
    held.state.assign(held.parameters.size(), {});
    held.velocity.assign(held.parameters.size(), {});
    for (std::size_t i = 0; i < held.parameters.size(); ++i) {
      const auto state = states.find(held.parameters[i]);
      if (state == states.end()) continue;
      for (const at::Tensor& tensor : state->second.optimizer)
        held.state[i].push_back(device_.copy(tensor));
      if (state->second.velocity.defined() && held.rules[i].averaging > 0)
        held.velocity[i] = device_.copy(state->second.velocity);
    }
  }
}

}  // namespace pipewright
