// relu, gelu, tanh, sigmoid and softmax: one input, no parameters. All but gelu
// compute their derivative from their own output, which the next layer mostly
// keeps anyway.

#include "pipewright/runtime/layers/gelu_kernels.h"
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

bool is_plain(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.scalar_type() == at::kFloat &&
         tensor.is_contiguous();
}

class Gelu final : public LayerFunction {
 public:
  explicit Gelu(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        approximate_(text(description.attributes(), "approximate")),
        form_(approximate_ == "tanh" ? GeluForm::Tanh : GeluForm::Erf) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    const at::Tensor& input = inputs[0];
    if (!is_plain(input)) return {at::gelu(input, approximate_), {}};
    at::Tensor output = at::empty_like(input);
    gelu(form_, input.const_data_ptr<float>(), output.data_ptr<float>(),
         input.numel());
    return {std::move(output), {}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    const at::Tensor& input = kept.inputs[0];
    if (!is_plain(input) || !is_plain(gradient))
      return {at::gelu_backward(gradient, input, approximate_)};
    at::Tensor of_input = at::empty_like(input);
    gelu_backward(form_, gradient.const_data_ptr<float>(),
                  input.const_data_ptr<float>(), of_input.data_ptr<float>(),
                  input.numel());
    return {std::move(of_input)};
  }

 private:
  bool wants_gradient_;
  std::string approximate_;
  GeluForm form_;
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
