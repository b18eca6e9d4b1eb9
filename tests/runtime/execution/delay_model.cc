// Rings of versions; see delay_model.h.

#include "tests/runtime/execution/delay_model.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "pipewright/runtime/layers/layer_makers.h"
#include "pipewright/runtime/training/initial_parameters.h"

namespace pipewright::testing {
namespace {

std::size_t at_index(int i) { return static_cast<std::size_t>(i); }

void add(at::Tensor& sum, const at::Tensor& part) {
  sum = sum.defined() ? sum.add(part) : part;
}

}  // namespace

DelayModel::DelayModel(const Model& model, DelayedPipeline pipeline,
                       const TrainingSettings& settings,
                       const MicrobatchSource& source)
    : model_(model),
      pipeline_(std::move(pipeline)),
      settings_(settings),
      source_(source),
      functions_(layer_functions(model)),
      rings_(at_index(pipeline_.stages)),
      users_(model.parameters().size()) {
  const c10::InferenceMode guard;
  trained_.parameters = initial_parameters(model, settings.seed);
  for (int l = 0; l < model.num_layers(); ++l) {
    trained_.statistics.push_back(
        functions_[at_index(l)]->initial_statistics());
    for (const ParameterId id : model.layer(LayerId(l)).parameters)
      users_[id.index()].insert(pipeline_.backward_stage[at_index(l)]);
  }
}

int DelayModel::forward_version(int layer, int m) const {
  const int N = pipeline_.microbatches;
  const int earlier = std::min(pipeline_.forward_stage[at_index(layer)],
                               pipeline_.backward_stage[at_index(layer)]);
  switch (now_) {
    case Method::Sync:
      return m / N;
    case Method::TwoBw:
      return std::max(0, m / N - 1);
    case Method::VerticalSync:
      return std::max(0, m - ahead(0)) / N;
    default:
      return std::max(0, m - ahead(earlier)) / N;
  }
}

int DelayModel::backward_version(int layer, int m) const {
  const bool newest = now_ == Method::Naive || now_ == Method::PipeMare;
  return newest ? m / pipeline_.microbatches : forward_version(layer, m);
}

int DelayModel::recompute_version(int layer, int m) const {
  if (now_ != Method::Naive && now_ != Method::PipeMare)
    return forward_version(layer, m);
  const int stage = pipeline_.backward_stage[at_index(layer)];
  const int early = pipeline_.segment_end[at_index(stage)] - stage;
  return std::max(0, m - early) / pipeline_.microbatches;
}

double DelayModel::delay(int stage) const {
  if (now_ == Method::Sync) return 0;
  if (now_ == Method::TwoBw) return 1;
  const int a = ahead(now_ == Method::VerticalSync ? 0 : stage);
  return static_cast<double>(a) / pipeline_.microbatches;
}

// Between the weights that forward and backward read; 0 without T2.
double DelayModel::distance(int stage) const {
  if (pipeline_.method != Method::PipeMare || pipeline_.uncorrected) return 0;
  return static_cast<double>(ahead(stage)) / pipeline_.microbatches;
}

double DelayModel::furthest(int parameter,
                            double (DelayModel::*of)(int) const) const {
  double most = 0;
  for (const int stage : users_[at_index(parameter)])
    most = std::max(most, (this->*of)(stage));
  return most;
}

Tensors DelayModel::weights(int layer, int version, double moved_back) const {
  const Ring& ring =
      rings_[at_index(pipeline_.backward_stage[at_index(layer)])];
  const int oldest = ring.newest + 1 - static_cast<int>(ring.versions.size());
  if (version < oldest || version > ring.newest)
    throw std::logic_error("no such version in the ring");
  const Weights& all = ring.versions[at_index(version - oldest)];
  const Weights& velocities = ring.velocities[at_index(version - oldest)];
  const double steps = std::min(moved_back, static_cast<double>(version));
  Tensors result;
  for (const ParameterId id : model_.layer(LayerId(layer)).parameters) {
    const at::Tensor& w = all.at(id.value);
    const auto velocity = velocities.find(id.value);
    const bool moves = steps > 0 && velocity != velocities.end();
    result.push_back(moves ? at::sub(w, velocity->second, steps) : w);
  }
  return result;
}

void DelayModel::forward(int layer, int m, int version, double moved_back,
                         bool again) {
  const std::size_t l = at_index(layer);
  const std::int64_t microbatch = first_microbatch_ + m;
  inputs_[l].clear();
  for (const Source& from : model_.layer(LayerId(layer)).inputs)
    inputs_[l].push_back(from.is_model_input() ? source_(from.input, microbatch)
                                               : outputs_[from.layer.index()]);
  ForwardContext context{settings_.seed, microbatch, 0, true, nullptr};
  if (!again && !trained_.statistics[l].empty())
    context.statistics = &trained_.statistics[l];
  Forwarded done = functions_[l]->forward(
      inputs_[l], weights(layer, version, moved_back), context);
  outputs_[l] = done.output;
  privates_[l] = std::move(done.kept_private);
}

void DelayModel::forward_all(int m) {
  for (int l = 0; l < model_.num_layers(); ++l)
    forward(l, m, forward_version(l, m), 0, false);
  trained_.losses.push_back(outputs_.back().item<double>());
}

void DelayModel::recompute(int stage, int m) {
  const int early = pipeline_.segment_end[at_index(stage)] - stage;
  const double back =
      now_ == Method::PipeMare && distance(stage) > 0
          ? static_cast<double>(ahead(stage) - early) / pipeline_.microbatches
          : 0;
  for (int l = 0; l < model_.num_layers(); ++l)
    if (pipeline_.backward_stage[at_index(l)] == stage)
      forward(l, m, recompute_version(l, m), back, true);
}

void DelayModel::backward_all(int m) {
  std::fill(gradients_.begin(), gradients_.end(), at::Tensor());
  gradients_.back() =
      at::full({}, 1.0 / pipeline_.microbatches, outputs_.back().scalar_type());
  for (int s = pipeline_.stages - 1; s >= 0; --s) {
    for (int member = 0; member <= s; ++member)
      if (pipeline_.recompute[at_index(member)] &&
          pipeline_.segment_end[at_index(member)] == s)
        recompute(member, m);
    for (int l = model_.num_layers() - 1; l >= 0; --l)
      if (pipeline_.backward_stage[at_index(l)] == s) backward(l, m);
  }
}

void DelayModel::backward(int layer, int m) {
  if (!model_.needs_gradient(LayerId(layer))) return;
  const std::size_t l = at_index(layer);
  const int stage = pipeline_.backward_stage[l];
  const double back = now_ == Method::PipeMare ? distance(stage) : 0;
  const KeptTensors kept{inputs_[l], outputs_[l], privates_[l]};
  Tensors carried;
  const Tensors of_inputs = functions_[l]->backward_input(
      kept, weights(layer, backward_version(layer, m), back), gradients_[l],
      &carried);
  const Layer& described = model_.layer(LayerId(layer));
  for (std::size_t i = 0; i < of_inputs.size(); ++i)
    if (of_inputs[i].defined())
      add(gradients_[described.inputs[i].layer.index()], of_inputs[i]);
  if (described.parameters.empty()) return;
  if (sums_[l].empty())
    sums_[l] = functions_[l]->backward_weight(kept, gradients_[l], carried);
  else
    functions_[l]->add_backward_weight(kept, gradients_[l], carried, sums_[l]);
}

void DelayModel::step(int stage, const std::map<int, at::Tensor>& gradients) {
  Ring& ring = rings_[at_index(stage)];
  const auto since = static_cast<double>(
      std::max<std::int64_t>(0, done_ - settings_.rescheduling_start));
  Weights next, velocities = ring.velocities.back();
  for (const auto& [id, before] : ring.versions.back()) {
    double rate = settings_.learning_rate(done_);
    const double tau = std::max(1.0, furthest(id, &DelayModel::delay));
    if (settings_.rescheduling_steps > 0)
      rate /=
          std::pow(tau, 1 - std::min(since / static_cast<double>(
                                                 settings_.rescheduling_steps),
                                     1.0));
    Tensors& state = ring.state[id];
    if (state.empty()) state = settings_.optimizer->first_state(before);
    at::Tensor w = before.clone();
    settings_.optimizer->update(w, gradients.at(id), state, rate, done_);
    if (const double d = furthest(id, &DelayModel::distance); d > 0) {
      const double gamma = std::pow(settings_.correction_decay, 1 / d);
      at::Tensor& velocity = velocities[id];
      if (!velocity.defined()) velocity = at::zeros_like(w);
      velocity = velocity.mul(gamma).add(w.sub(before), 1 - gamma);
    }
    trained_.parameters[at_index(id)] = w;
    next[id] = w;
  }
  ring.versions.push_back(std::move(next));
  ring.velocities.push_back(std::move(velocities));
  ++ring.newest;
  // As long as the furthest reader needs: (P-1)/N versions back, or one.
  const std::size_t length = at_index(
      std::max(1, (pipeline_.stages - 2) / pipeline_.microbatches + 1) + 1);
  if (ring.versions.size() <= length) return;
  ring.versions.erase(ring.versions.begin());
  ring.velocities.erase(ring.velocities.begin());
}

void DelayModel::step_all() {
  std::map<int, at::Tensor> gradients;
  for (std::size_t l = 0; l < sums_.size(); ++l)
    for (std::size_t i = 0; i < sums_[l].size(); ++i)
      add(gradients[model_.layer(LayerId(l)).parameters[i].value], sums_[l][i]);
  for (int s = 0; s < pipeline_.stages; ++s) step(s, gradients);
  ++done_;
}

void DelayModel::run(int minibatches, Method method) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  now_ = method;
  const auto layers = at_index(model_.num_layers());
  first_microbatch_ = done_ * pipeline_.microbatches;
  for (Ring& ring : rings_) {
    ring.versions.assign(1, {});
    ring.velocities.assign(
        1, ring.velocities.empty() ? Weights() : ring.velocities.back());
    ring.newest = 0;
  }
  for (std::size_t id = 0; id < users_.size(); ++id)
    for (const int stage : users_[id])
      rings_[at_index(stage)].versions[0][static_cast<int>(id)] =
          trained_.parameters[id];
  inputs_.assign(layers, {});
  privates_.assign(layers, {});
  outputs_.assign(layers, {});
  gradients_.assign(layers, {});
  for (int t = 0; t < minibatches; ++t) {
    sums_.assign(layers, {});
    for (int j = 0; j < pipeline_.microbatches; ++j) {
      forward_all(t * pipeline_.microbatches + j);
      backward_all(t * pipeline_.microbatches + j);
    }
    step_all();
  }
}

}  // namespace pipewright::testing
