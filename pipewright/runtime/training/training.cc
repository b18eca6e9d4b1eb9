#include "pipewright/runtime/training/training.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

namespace pipewright {
namespace {

double delayed(double rate, const TrainingSettings& settings, std::int64_t step,
               double delay) {
  if (settings.rescheduling_steps <= 0 || delay <= 1) return rate;
  const std::int64_t since =
      std::max<std::int64_t>(0, step - settings.rescheduling_start);
  const double share = static_cast<double>(since) /
                       static_cast<double>(settings.rescheduling_steps);
  return rate / std::pow(delay, 1 - std::min(share, 1.0));
}

}  // namespace

double delayed_rate(const TrainingSettings& settings, std::int64_t step,
                    double delay) {
  return delayed(settings.learning_rate(step), settings, step, delay);
}

void update_parameter(const TrainingSettings& settings, ParameterId id,
                      at::Tensor& weights, const at::Tensor& gradient,
                      Tensors& state, double delay, std::int64_t step) {
  const auto group = settings.groups.find(id);
  const bool is_own = group != settings.groups.end();
  const Optimizer& optimizer =
      is_own ? *group->second.optimizer : *settings.optimizer;
  const double rate =
      is_own ? group->second.learning_rate(step) : settings.learning_rate(step);
  if (state.empty()) state = optimizer.first_state(weights);
  optimizer.update(weights, gradient, state,
                   delayed(rate, settings, step, delay), step);
}

bool is_loss(const Layer& layer) {
  return layer.kind == LayerKind::CrossEntropy ||
         layer.kind == LayerKind::LinearCrossEntropy ||
         layer.kind == LayerKind::Mse ||
         (layer.kind == LayerKind::Exported && flag(layer.attributes, "loss"));
}

at::Tensor seed_gradient(const Layer& layer, std::int64_t samples,
                         std::int64_t minibatch_samples) {
  const at::ScalarType type = scalar_type(layer.output_type);
  if (is_loss(layer))
    return at::full(
        {},
        static_cast<double>(samples) / static_cast<double>(minibatch_samples),
        type);
  return at::zeros(sizes_of(samples, layer.output), type);
}

SingleThreaded::SingleThreaded() : before_(at::get_num_threads()) {
  at::set_num_threads(1);
}
SingleThreaded::~SingleThreaded() { at::set_num_threads(before_); }

bool is_identical(const Trained& a, const Trained& b) {
  const auto same = [](const Tensors& x, const Tensors& y) {
    return std::equal(
        x.begin(), x.end(), y.begin(), y.end(),
        [](const at::Tensor& s, const at::Tensor& t) { return s.equal(t); });
  };
  return same(a.parameters, b.parameters) &&
         std::equal(a.statistics.begin(), a.statistics.end(),
                    b.statistics.begin(), b.statistics.end(), same) &&
         a.losses == b.losses;
}

}  // namespace pipewright
