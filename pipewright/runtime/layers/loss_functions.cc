// cross_entropy and mse: the mean over the given samples, one number.
// cross_entropy keeps its derivative by the logits, which its inputs alone
// decide, before it is scaled; mse both inputs.

#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/layers/layer_description.h"
#include "pipewright/runtime/layers/logit_losses.h"
#include "pipewright/runtime/layers/uneven_products.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMean = 1;  // at::Reduction::Mean

class CrossEntropy final : public LayerFunction {
 public:
  explicit CrossEntropy(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext& context) const override {
    if (const FusedKernels* fused = fused_kernels(inputs[0]))
      return fused_forward(*fused, inputs[0], inputs[1]);
    const at::Tensor rows = inputs[0].reshape({-1, inputs[0].size(-1)});
    const at::Tensor targets = inputs[1].reshape({-1});
    at::Tensor log_probabilities = at::_log_softmax(rows, 1, false);
    auto [loss, weight] = at::nll_loss_forward(log_probabilities, targets, {},
                                               kMean, kIgnoreNone);
    if (context.training) differentiate(log_probabilities, targets);
    return {loss, {log_probabilities.view(inputs[0].sizes())}};
  }

  // (probabilities - one at the target) * gradient / rows.
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor(), at::Tensor()};
    const at::Tensor& derivative = kept.kept_private[0];
    const auto rows =
        static_cast<double>(derivative.numel() / derivative.size(-1));
    const FusedKernels* fused = fused_kernels(derivative);
    if (!fused) return {derivative.mul(gradient.div(rows)), at::Tensor()};
    at::Tensor result = spaced_rows(derivative.sizes(), derivative.options());
    fused->multiply(derivative, gradient, 1 / rows, result);
    return {result, at::Tensor()};
  }

 private:
  static Forwarded fused_forward(const FusedKernels& fused,
                                 const at::Tensor& logits,
                                 const at::Tensor& targets) {
    at::Tensor derivative = spaced_rows(logits.sizes(), logits.options());
    const at::Tensor losses = fused.cross_entropy(logits, targets, derivative);
    return {losses.mean().to(logits.scalar_type()), {derivative}};
  }

  bool wants_gradient_;
};

class Mse final : public LayerFunction {
 public:
  explicit Mse(LayerDescription description)
      : description_(std::move(description)) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    // The kernel leaves its result in the storage of all differences.
    return {at::mse_loss(inputs[0], inputs[1]).clone(), {}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    Tensors gradients(2);
    for (std::size_t i : {0, 1})
      if (description_.wants_gradient(i))
        gradients[i] = at::mse_loss_backward(gradient, kept.inputs[i],
                                             kept.inputs[1 - i], kMean);
    return gradients;
  }

 private:
  LayerDescription description_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_cross_entropy(
    LayerDescription description) {
  return std::make_unique<CrossEntropy>(description);
}
std::unique_ptr<const LayerFunction> make_mse(LayerDescription description) {
  return std::make_unique<Mse>(std::move(description));
}

}  // namespace pipewright
