// Stochastic gradient descent with momentum:
//   g <- gradient + decay * w;  b <- momentum * b + g;  w <- w - rate * b
// and with Nesterov's look-ahead w <- w - rate * (g + momentum * b).

#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {
namespace {

class Sgd final : public Optimizer {
 public:
  explicit Sgd(const SgdSettings& settings) : settings_(settings) {}

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
  SgdSettings settings_;
};

}  // namespace

std::shared_ptr<const Optimizer> sgd(const SgdSettings& settings) {
  return std::make_shared<Sgd>(settings);
}

}  // namespace pipewright
