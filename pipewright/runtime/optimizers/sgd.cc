// Stochastic gradient descent with momentum:
//   g <- gradient + decay * w;  b <- momentum * b + g;  w <- w - rate * b
// and with Nesterov's look-ahead w <- w - rate * (g + momentum * b).

#include <initializer_list>

#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdSettings& settings)
      : Optimizer(settings.masters), settings_(settings) {}

  int words() const override { return settings_.momentum != 0 ? 1 : 0; }

  void change(at::Tensor& weights, const at::Tensor& gradient, Tensors& state,
              double rate, std::int64_t) const override {
    at::Tensor direction = gradient;
    if (settings_.weight_decay != 0)
      direction = direction.add(weights, settings_.weight_decay);
    if (settings_.momentum != 0) {
      at::Tensor& velocity = state.at(0);
      velocity.mul_(settings_.momentum).add_(direction);
      direction = settings_.nesterov
                      ? direction.add(velocity, settings_.momentum)
                      : velocity;
    }
    weights.add_(direction, -rate);
  }

 private:
  bool change_at_once(const FusedKernels& kernels, at::Tensor& weights,
                      const at::Tensor& gradient, Tensors& state,
                      double rate) const override {
    if (settings_.weight_decay != 0 || settings_.nesterov ||
        gradient.scalar_type() != weights.scalar_type())
      return false;
    at::Tensor none;
    at::Tensor& velocity = settings_.momentum != 0 ? state.front() : none;
    at::Tensor& master =
        has_master(weights.scalar_type()) ? state.back() : none;
    for (const at::Tensor* each : std::initializer_list<const at::Tensor*>{
             &weights, &gradient, &master, &velocity})
      if (each->defined() && !each->is_contiguous()) return false;
    kernels.descend(gradient, rate, settings_.momentum, velocity, master,
                    weights);
    return true;
  }

  SgdSettings settings_;
};

}  // namespace

std::shared_ptr<const Optimizer> sgd(const SgdSettings& settings) {
  return std::make_shared<Sgd>(settings);
}

}  // namespace pipewright
