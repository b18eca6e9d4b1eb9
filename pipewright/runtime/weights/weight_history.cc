#include "pipewright/runtime/weights/weight_history.h"

#include <algorithm>

namespace pipewright {

const WeightHistory::Weights& WeightHistory::version(
    std::int32_t version) const {
  return versions_.at(std::max(version, 0));
}

at::Tensor WeightHistory::read(ParameterId id, std::int32_t number,
                               double steps_back) const {
  const at::Tensor& tensor = version(number).at(id);
  const double steps = std::min(steps_back, static_cast<double>(number));
  if (steps <= 0) return tensor;
  const Weights& velocities = velocities_.at(number - 1);
  const auto velocity = velocities.find(id);
  return velocity == velocities.end()
             ? tensor
             : at::sub(tensor, velocity->second, steps);
}

void WeightHistory::install(std::int32_t version, Weights weights) {
  const std::size_t index = version;
  versions_.resize(std::max(versions_.size(), index + 1));
  versions_[index] = std::move(weights);
}

void WeightHistory::step(const TrainingSettings& settings,
                         const std::function<StepRule(ParameterId)>& rule,
                         const Gradients& gradients) {
  const auto step = static_cast<std::int64_t>(versions_.size()) - 1;
  Weights next, velocities;
  for (const auto& [id, tensor] : versions_.back()) {
    const StepRule own = rule(id);
    at::Tensor changed = tensor.clone();
    update_parameter(settings, id, changed, gradients.at(id.index()),
                     state_[id], own.delay, step);
    if (own.averaging > 0) {
      const double gamma = velocity_decay(settings, own.averaging);
      const at::Tensor before = velocities_.empty() ? at::zeros_like(tensor)
                                                    : velocities_.back().at(id);
      velocities[id] = before.mul(gamma).add(changed.sub(tensor), 1 - gamma);
    }
    next[id] = changed;
  }
  versions_.push_back(std::move(next));
  velocities_.push_back(std::move(velocities));
}

}  // namespace pipewright
