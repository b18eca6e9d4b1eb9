#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {

Tensors Optimizer::first_state(const at::Tensor& weights) const {
  const at::ScalarType type = state_type(weights.scalar_type());
  Tensors state;
  for (int i = 0; i < words(); ++i)
    state.push_back(at::zeros_like(weights, type));
  if (has_master(weights.scalar_type())) state.push_back(weights.to(type));
  return state;
}

void Optimizer::update(at::Tensor& weights, const at::Tensor& gradient,
                       Tensors& state, double rate, std::int64_t step) const {
  const FusedKernels* kernels = fused_kernels(weights);
  if (kernels && change_at_once(*kernels, weights, gradient, state, rate))
    return;
  const at::ScalarType type = weights.scalar_type();
  if (!has_two_bytes(type)) return change(weights, gradient, state, rate, step);
  at::Tensor master =
      has_master(type) ? state.back() : weights.to(state_type(type));
  change(master, gradient.to(master.scalar_type()), state, rate, step);
  weights.copy_(master);
}

Result<std::shared_ptr<const Optimizer>> make_optimizer(
    const OptimizerChoice& choice) {
  if (const auto checked = memory_of(choice); !checked) return checked.error();
  const double decay = weight_decay(choice);
  if (choice.name == "sgd")
    return sgd({choice.momentum, decay, choice.nesterov, choice.masters});
  return adam({choice.beta1, choice.beta2, choice.epsilon, decay,
               choice.name == "adamw", choice.masters});
}

}  // namespace pipewright
