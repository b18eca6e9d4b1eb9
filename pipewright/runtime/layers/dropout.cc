// dropout: zeroes elements with probability `rate`, scales the others by
// 1 / (1 - rate), and keeps the mask, one byte per element. Element i depends
// on (seed, microbatch, layer, i) alone, not on workers, order or a split of
// the microbatch.

#include "pipewright/runtime/layers/dropout_mask.h"
#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

class Dropout final : public LayerFunction {
 public:
  explicit Dropout(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        layer_(description.id),
        rate_(real(description.attributes(), "rate")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext& context) const override {
    if (!context.training) return {inputs[0], {}};
    const at::Tensor keep = dropout_mask(inputs[0], layer_, rate_, context);
    return {masked(inputs[0], keep), {keep}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {masked(gradient, kept.kept_private[0])};
  }
  bool draws() const override { return true; }

 private:
  at::Tensor masked(const at::Tensor& tensor, const at::Tensor& keep) const {
    return at::native_dropout_backward(tensor, keep, 1 / (1 - rate_));
  }

  bool wants_gradient_;
  LayerId layer_;
  double rate_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_dropout(
    LayerDescription description) {
  return std::make_unique<Dropout>(description);
}

}  // namespace pipewright
