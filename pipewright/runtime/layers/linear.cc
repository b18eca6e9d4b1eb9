// linear: output = input * weight^T + bias over the last dimension. Its
// backward keeps the input.

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

class Linear final : public LayerFunction {
 public:
  explicit Linear(LayerDescription description)
      : wants_gradient_(description.wants_gradient(0)),
        has_bias_(description.parameter_shapes.size() > 1) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    const at::Tensor rows = as_rows(inputs[0]);
    at::Tensor output = has_bias_ ? at::addmm(weights[1], rows, weights[0].t())
                                  : at::mm(rows, weights[0].t());
    std::vector<std::int64_t> sizes = inputs[0].sizes().vec();
    sizes.back() = weights[0].size(0);
    return {output.view(sizes), {}};
  }

  Tensors backward_input(const KeptTensors&, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    std::vector<std::int64_t> sizes = gradient.sizes().vec();
    sizes.back() = weights[0].size(1);
    return {at::mm(as_rows(gradient), weights[0]).view(sizes)};
  }

  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    const at::Tensor rows = as_rows(gradient);
    Tensors gradients = {at::mm(rows.t(), as_rows(kept.inputs[0]))};
    if (has_bias_) gradients.push_back(rows.sum(0));
    return gradients;
  }

 private:
  static at::Tensor as_rows(const at::Tensor& tensor) {
    return tensor.reshape({-1, tensor.size(-1)});
  }

  bool wants_gradient_;
  bool has_bias_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_linear(LayerDescription description) {
  return std::make_unique<Linear>(std::move(description));
}

}  // namespace pipewright
