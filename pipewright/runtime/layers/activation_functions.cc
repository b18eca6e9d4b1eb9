// relu, gelu, tanh, sigmoid and softmax: one input, no parameters. All but gelu
// find their derivative in their own output, which the next layer mostly keeps
// anyway.

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

struct ReluKernel {
  static at::Tensor forward(const at::Tensor& input) { return at::relu(input); }
  static at::Tensor backward(const KeptTensors& kept,
                             const at::Tensor& gradient) {
    return at::threshold_backward(gradient, kept.output, 0);
  }
};

struct TanhKernel {
  static at::Tensor forward(const at::Tensor& input) { return at::tanh(input); }
  static at::Tensor backward(const KeptTensors& kept,
                             const at::Tensor& gradient) {
    return at::tanh_backward(gradient, kept.output);
  }
};

struct SigmoidKernel {
  static at::Tensor forward(const at::Tensor& input) {
    return at::sigmoid(input);
  }
  static at::Tensor backward(const KeptTensors& kept,
                             const at::Tensor& gradient) {
    return at::sigmoid_backward(gradient, kept.output);
  }
};

// Over the last dimension.
struct SoftmaxKernel {
  static at::Tensor forward(const at::Tensor& input) {
    return at::_softmax(input, -1, false);
  }
  static at::Tensor backward(const KeptTensors& kept,
                             const at::Tensor& gradient) {
    return at::_softmax_backward_data(gradient, kept.output, -1,
                                      gradient.scalar_type());
  }
};

template <class Kernel>
class Activation final : public LayerFunction {
 public:
  explicit Activation(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {Kernel::forward(inputs[0]), {}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {Kernel::backward(kept, gradient)};
  }

 private:
  bool wants_gradient_;
};

// oneDNN, which ATen asks for contiguous tensors, takes longer to be asked than
// this many elements take to compute; ATen's own kernel takes a transposed
// tensor, too, and does not mind.
constexpr std::int64_t kSmall = 1 << 15;

at::Tensor turned(const at::Tensor& tensor) {
  return tensor.view({-1, tensor.size(-1)}).t();
}
bool is_better_turned(const at::Tensor& tensor) {
  return tensor.numel() < kSmall && tensor.dim() > 1 && tensor.is_contiguous();
}

class Gelu final : public LayerFunction {
 public:
  explicit Gelu(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        approximate_(text(description.attributes(), "approximate")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    const at::Tensor& input = inputs[0];
    if (!is_better_turned(input)) return {at::gelu(input, approximate_), {}};
    return {at::gelu(turned(input), approximate_).t().view(input.sizes()), {}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    const at::Tensor& input = kept.inputs[0];
    if (!is_better_turned(input) || !gradient.is_contiguous())
      return {at::gelu_backward(gradient, input, approximate_)};
    return {at::gelu_backward(turned(gradient), turned(input), approximate_)
                .t()
                .view(input.sizes())};
  }

 private:
  bool wants_gradient_;
  std::string approximate_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_relu(LayerDescription description) {
  return std::make_unique<Activation<ReluKernel>>(description);
}
std::unique_ptr<const LayerFunction> make_gelu(LayerDescription description) {
  return std::make_unique<Gelu>(description);
}
std::unique_ptr<const LayerFunction> make_tanh(LayerDescription description) {
  return std::make_unique<Activation<TanhKernel>>(description);
}
std::unique_ptr<const LayerFunction> make_sigmoid(
    LayerDescription description) {
  return std::make_unique<Activation<SigmoidKernel>>(description);
}
std::unique_ptr<const LayerFunction> make_softmax(
    LayerDescription description) {
  return std::make_unique<Activation<SoftmaxKernel>>(description);
}

}  // namespace pipewright
