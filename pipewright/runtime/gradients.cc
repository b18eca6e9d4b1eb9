#include "pipewright/runtime/gradients.h"

#include <algorithm>
#include <cmath>

namespace pipewright {

Gradients own_gradients(const Model& model, const Operation& operation,
                        const LayerGradients& of_layers) {
  Gradients gradients;
  for (const LayerId layer : operation.backward) {
    const auto sums = of_layers.find(layer);
    if (sums == of_layers.end()) continue;
    const auto& parameters = model.layer(layer).parameters;
    for (std::size_t i = 0; i < sums->second.size(); ++i) {
      auto [sum, is_new] = gradients.emplace(parameters[i], sums->second[i]);
      if (!is_new) sum->second = sum->second.add(sums->second[i]);
    }
  }
  return gradients;
}

std::vector<Contribution> contributions_of(const Model& model,
                                           const Reduction& reduction,
                                           const LayerGradients& of_layers) {
  const auto& wanted = reduction.parameters;
  std::vector<Contribution> contributions;
  for (const auto& [layer, sums] : of_layers) {
    const auto& parameters = model.layer(layer).parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (std::find(wanted.begin(), wanted.end(), parameters[i]) !=
          wanted.end())
        contributions.push_back({parameters[i], layer, sums[i]});
  }
  return contributions;
}

std::vector<Contribution> squares_of(const Gradients& gradients) {
  std::vector<Contribution> squares;
  for (const auto& [id, gradient] : gradients)
    squares.push_back(
        {id, LayerId(),
         at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).square()});
  return squares;
}

double norm_of_squares(const std::vector<at::Tensor>& squares) {
  double sum = 0;
  for (const at::Tensor& square : squares) sum += square.item<double>();
  return std::sqrt(sum);
}

double norm_of(const Gradients& gradients) {
  std::vector<at::Tensor> squares;
  for (const Contribution& part : squares_of(gradients))
    squares.push_back(part.gradient);
  return norm_of_squares(squares);
}

void clip(Gradients& gradients, double norm, double most) {
  constexpr double kEpsilon = 1e-6;  // as torch's
  const double factor = most / (norm + kEpsilon);
  if (most <= 0 || factor >= 1) return;
  for (auto& [id, gradient] : gradients) gradient = gradient.mul(factor);
}

}  // namespace pipewright
