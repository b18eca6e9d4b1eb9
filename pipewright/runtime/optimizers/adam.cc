// Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015)
// and AdamW, whose decay does not go through the moments (Loshchilov and
// Hutter, "Decoupled Weight Decay Regularization", ICLR 2019):
//   m <- b1 m + (1 - b1) g;  v <- b2 v + (1 - b2) g g
//   w <- w - rate / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + epsilon)
// in the order of operations that gives LibTorch's bits.

#include <cmath>

#include "pipewright/runtime/optimizers/optimizer.h"

namespace pipewright {
namespace {

class Adam final : public Optimizer {
 public:
  explicit Adam(const AdamSettings& settings)
      : Optimizer(settings.masters), settings_(settings) {}

  int words() const override { return 2; }

  void change(at::Tensor& weights, const at::Tensor& gradient, Tensors& state,
              double rate, std::int64_t step) const override {
    const auto& [beta1, beta2, epsilon, decay, decoupled, masters] = settings_;
    at::Tensor g = gradient;
    if (decay != 0) {
      if (decoupled)
        weights.mul_(1 - rate * decay);
      else
        g = g.add(weights, decay);
    }
    at::Tensor& mean = state.at(0);
    at::Tensor& square = state.at(1);
    mean.mul_(beta1).add_(g, 1 - beta1);
    square.mul_(beta2).addcmul_(g, g, 1 - beta2);
    const auto t = static_cast<double>(step + 1);
    const double correction1 = 1 - std::pow(beta1, t);
    const double correction2 = 1 - std::pow(beta2, t);
    const at::Tensor size =
        square.sqrt().div_(std::sqrt(correction2)).add_(epsilon);
    weights.addcdiv_(mean, size, -rate / correction1);
  }

 private:
  AdamSettings settings_;
};

}  // namespace

std::shared_ptr<const Optimizer> adam(const AdamSettings& settings) {
  return std::make_shared<Adam>(settings);
}

}  // namespace pipewright
