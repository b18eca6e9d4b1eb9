// Versions without end; see weight_history.h.

#include "pipewright/runtime/weights/weight_history.h"

#include <algorithm>
#include <cmath>

namespace pipewright {

const WeightHistory::Weights& WeightHistory::version(
    std::int32_t version) const {
  return versions_.at(static_cast<std::size_t>(std::max(version, 0)));
}

at::Tensor WeightHistory::read(ParameterId id, std::int32_t number,
                               double steps_back) const {
  const at::Tensor& tensor = version(number).at(id);
  if (steps_back <= 0 || number <= 0) return tensor;
  const Weights& velocity =
      velocities_.at(static_cast<std::size_t>(number) - 1);
  return at::sub(tensor, velocity.at(id), steps_back);
}

void WeightHistory::install(std::int32_t version, Weights weights) {
  const auto index = static_cast<std::size_t>(version);
  versions_.resize(std::max(versions_.size(), index + 1));
  versions_[index] = std::move(weights);
}

void WeightHistory::step(const TrainingSettings& settings,
                         const StageDelay& delay, const Weights& gradients) {
  const auto step = static_cast<std::int64_t>(versions_.size()) - 1;
  const double rate = delayed_rate(settings, step, delay.forward);
  const double distance = delay.forward - delay.backward;
  const bool corrected = delay.corrected && distance > 0;
  const double gamma =
      corrected ? std::pow(settings.correction_decay, 1 / distance) : 0;
  Weights next, velocity;
  for (const auto& [id, tensor] : versions_.back()) {
    Tensors& state = state_[id];
    while (static_cast<int>(state.size()) < settings.optimizer->words())
      state.push_back(at::zeros_like(tensor));
    at::Tensor changed = tensor.clone();
    settings.optimizer->update(changed, gradients.at(id), state, rate, step);
    if (corrected) {
      const at::Tensor before = velocities_.empty() ? at::zeros_like(tensor)
                                                    : velocities_.back().at(id);
      velocity[id] = before.mul(gamma).add(changed.sub(tensor), 1 - gamma);
    }
    next[id] = changed;
  }
  versions_.push_back(std::move(next));
  if (corrected) velocities_.push_back(std::move(velocity));
}

}  // namespace pipewright
