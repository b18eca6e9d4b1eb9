// max_pool, avg_pool and adaptive_avg_pool. Their backward needs the input's
// shape, which is known; max_pool keeps the positions of the maxima. No
// activation is kept.

#include "pipewright/runtime/layers/device_constant.h"
#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

// A tensor of the input's shape that takes no memory; the kernels do not read
// its numbers.
at::Tensor shape_only(const Shape& shape, const at::Tensor& gradient) {
  return at::zeros({1}, gradient.options())
      .expand(sizes_of(gradient.size(0), shape));
}

class MaxPool final : public LayerFunction {
 public:
  explicit MaxPool(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        input_(description.input_shapes[0]),
        kernel_(pair(description.attributes(), "kernel")),
        stride_(pair(description.attributes(), "stride")),
        padding_(pair(description.attributes(), "padding")),
        ceil_(flag(description.attributes(), "ceil")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    auto [output, positions] = at::max_pool2d_with_indices(
        inputs[0], kernel_, stride_, padding_, {1, 1}, ceil_);
    return {output, {positions}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {at::max_pool2d_with_indices_backward(
        gradient, shape_only(input_, gradient), kernel_, stride_, padding_,
        {1, 1}, ceil_, kept.kept_private[0])};
  }

 private:
  bool wants_gradient_;
  Shape input_;
  Shape kernel_, stride_, padding_;
  bool ceil_;
};

class AvgPool final : public LayerFunction {
 public:
  explicit AvgPool(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        input_(description.input_shapes[0]),
        kernel_(pair(description.attributes(), "kernel")),
        stride_(pair(description.attributes(), "stride")),
        padding_(pair(description.attributes(), "padding")),
        ceil_(flag(description.attributes(), "ceil")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {at::avg_pool2d(inputs[0], kernel_, stride_, padding_, ceil_), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {at::avg_pool2d_backward(gradient, shape_only(input_, gradient),
                                    kernel_, stride_, padding_, ceil_, true,
                                    std::nullopt)};
  }

 private:
  bool wants_gradient_;
  Shape input_;
  Shape kernel_, stride_, padding_;
  bool ceil_;
};

class AdaptiveAvgPool final : public LayerFunction {
 public:
  explicit AdaptiveAvgPool(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        input_(description.input_shapes[0]),
        size_(pair(description.attributes(), "size")),
        shares_of_rows_(shares(size_[0], input_[1],
                               scalar_type(description.layer->output_type))),
        shares_of_columns_(shares(
            size_[1], input_[2], scalar_type(description.layer->output_type))) {
  }

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {at::_adaptive_avg_pool2d(inputs[0], size_), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    if (gradient.is_cpu())
      return {at::_adaptive_avg_pool2d_backward(gradient,
                                                shape_only(input_, gradient))};
    // A GPU's own kernel adds in any order: a product per dimension does not.
    return {at::matmul(
        at::matmul(shares_of_rows_.on(gradient.device()).t(), gradient),
        shares_of_columns_.on(gradient.device()))};
  }

 private:
  // outputs x inputs: what an output takes of each input.
  static at::Tensor shares(std::int64_t outputs, std::int64_t inputs,
                           at::ScalarType type) {
    at::Tensor result = at::zeros({outputs, inputs}, type);
    for (std::int64_t i = 0; i < outputs; ++i) {
      const std::int64_t first = i * inputs / outputs;
      const std::int64_t end = ((i + 1) * inputs + outputs - 1) / outputs;
      result[i].narrow(0, first, end - first).fill_(1.0 / (end - first));
    }
    return result;
  }

  bool wants_gradient_;
  Shape input_;
  Shape size_;
  DeviceConstant shares_of_rows_, shares_of_columns_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_max_pool(
    LayerDescription description) {
  return std::make_unique<MaxPool>(description);
}
std::unique_ptr<const LayerFunction> make_avg_pool(
    LayerDescription description) {
  return std::make_unique<AvgPool>(description);
}
std::unique_ptr<const LayerFunction> make_adaptive_avg_pool(
    LayerDescription description) {
  return std::make_unique<AdaptiveAvgPool>(description);
}

}  // namespace pipewright
