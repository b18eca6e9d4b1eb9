#include "pipewright/runtime/execution/gradients.h"

#include <algorithm>
#include <cmath>

#include "pipewright/runtime/execution/finite_kernel.h"

namespace pipewright {
namespace {

at::Tensor square_of(const at::Tensor& gradient) {
  return at::linalg_vector_norm(gradient, 2, {}, false, at::kDouble).square();
}

}  // namespace

void add_own_gradients(const Model& model, const Operation& operation,
                       LayerGradients of_layers, Gradients& gradients) {
  for (const LayerId layer : operation.backward) {
    const Tensors* sums = of_layers(layer);
    if (!sums) continue;
    const auto& parameters = model.layer(layer).parameters;
    for (std::size_t i = 0; i < sums->size(); ++i) {
      at::Tensor& sum = gradients[parameters[i].index()];
      sum = sum.defined() ? sum.add((*sums)[i]) : (*sums)[i];
    }
  }
}

void add_contributions(const Model& model, const Reduction& reduction,
                       LayerGradients of_layers,
                       std::vector<Contribution>& contributions) {
  const auto& wanted = reduction.parameters;
  for (int l = 0; l < model.num_layers(); ++l) {
    const Tensors* sums = of_layers(LayerId(l));
    if (!sums) continue;
    const auto& parameters = model.layer(LayerId(l)).parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (std::find(wanted.begin(), wanted.end(), parameters[i]) !=
          wanted.end())
        contributions.push_back({parameters[i], LayerId(l), (*sums)[i]});
  }
}

void add_squares(const Gradients& gradients,
                 std::vector<Contribution>& contributions) {
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].defined())
      contributions.push_back(
          {ParameterId(i), LayerId(), square_of(gradients[i])});
}

double norm_of(const Gradients& gradients) {
  double sum = 0;
  for (const at::Tensor& gradient : gradients)
    if (gradient.defined()) sum += square_of(gradient).item<double>();
  return std::sqrt(sum);
}

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return true;
  if (tensor.scalar_type() == at::kFloat &&
      tensor.is_non_overlapping_and_dense())
    return all_finite(tensor.const_data_ptr<float>(), tensor.numel());
  return std::isfinite(tensor.sum(at::kDouble).item<double>());
}

void clip(Gradients& gradients, double norm, double most) {
  constexpr double kEpsilon = 1e-6;  // as torch's
  const double factor = most / (norm + kEpsilon);
  if (most <= 0 || factor >= 1) return;
  for (at::Tensor& gradient : gradients)
    if (gradient.defined()) gradient = gradient.mul(factor);
}

}  // namespace pipewright
