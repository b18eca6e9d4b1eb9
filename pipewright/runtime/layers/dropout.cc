// dropout: zeroes elements with probability `rate`, scales the others by
// 1 / (1 - rate), and keeps the mask, one byte per element. Element i depends
// on (seed, microbatch, layer, i) alone, not on workers, order or a split of
// the microbatch.

#include "pipewright/runtime/layers/layer_description.h"
#include "pipewright/runtime/layers/random_stream.h"

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
    at::Tensor keep = mask(inputs[0], context);
    return {masked(inputs[0], keep), {keep}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {masked(gradient, kept.kept_private[0])};
  }

 private:
  at::Tensor mask(const at::Tensor& input,
                  const ForwardContext& context) const {
    at::Tensor keep = at::ones(input.sizes(), at::kBool);
    if (rate_ == 0) return keep;
    const RandomStream stream(context.seed,
                              static_cast<std::uint64_t>(context.microbatch),
                              static_cast<std::uint64_t>(layer_.value));
    const std::int64_t first =
        context.first_sample * (input.numel() / input.size(0));
    bool* elements = keep.data_ptr<bool>();
    for (std::int64_t i = 0; i < keep.numel(); ++i)
      elements[i] =
          stream.uniform(static_cast<std::uint64_t>(first + i)) >= rate_;
    return keep;
  }

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
