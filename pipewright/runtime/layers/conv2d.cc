// conv2d over images, with groups and dilation. Its backward keeps the input.

#include <array>
#include <tuple>

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

class Conv2d final : public LayerFunction {
 public:
  explicit Conv2d(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        has_bias_(flag(description.attributes(), "bias")),
        input_(description.input_shapes[0]),
        weight_(description.parameter_shapes[0]),
        stride_(pair(description.attributes(), "stride")),
        padding_(pair(description.attributes(), "padding")),
        dilation_(pair(description.attributes(), "dilation")),
        groups_(integer(description.attributes(), "groups")) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    return {at::convolution(inputs[0], weights[0],
                            has_bias_ ? weights[1] : at::Tensor(), stride_,
                            padding_, dilation_, false, {0, 0}, groups_),
            {}};
  }
  // The kernel asks for the input, of which this half reads only the shape.
  Tensors backward_input(const KeptTensors&, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    const at::Tensor like =
        at::empty(sizes_of(gradient.size(0), input_), gradient.options());
    return {
        std::get<0>(halves(like, weights[0], gradient, {true, false, false}))};
  }
  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    const at::Tensor like = at::empty(weight_, gradient.options());
    auto [none, weight, bias] =
        halves(kept.inputs[0], like, gradient, {false, true, has_bias_});
    if (has_bias_) return {weight, bias};
    return {weight};
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> halves(
      const at::Tensor& input, const at::Tensor& weight,
      const at::Tensor& gradient, std::array<bool, 3> mask) const {
    return at::convolution_backward(gradient.contiguous(), input, weight,
                                    at::OptionalIntArrayRef(weight_[0]),
                                    stride_, padding_, dilation_, false, {0, 0},
                                    groups_, mask);
  }

  bool wants_gradient_, has_bias_;
  Shape input_, weight_, stride_, padding_, dilation_;
  std::int64_t groups_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_conv2d(LayerDescription description) {
  return std::make_unique<Conv2d>(description);
}

}  // namespace pipewright
