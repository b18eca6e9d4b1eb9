// relu, gelu, tanh, sigmoid and softmax: one input, no parameters. All but gelu
// compute their derivative from their own output, which the next layer mostly
// keeps anyway.

#include "pipewright/runtime/layers/gelu_tensors.h"
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

class Gelu final : public LayerFunction {
 public:
  explicit Gelu(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        approximate_(text(description.attributes(), "approximate")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {gelu_of(inputs[0], approximate_), {}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return list_of(gelu_gradient(gradient, kept.inputs[0], approximate_));
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
