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
    const at::Tensor& input = inputs[0];
    const at::Tensor rows = as_rows(input);
    if (!has_bias_) return {like(input, at::mm(rows, weights[0].t())), {}};
    return {like(input, at::addmm(weights[1], rows, weights[0].t())), {}};
  }

  Tensors backward_input(const KeptTensors&, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {like(gradient, at::mm(as_rows(gradient), weights[0]))};
  }

  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    const at::Tensor rows = as_rows(gradient);
    Tensors gradients = {at::mm(rows.t(), as_rows(kept.inputs[0]))};
    if (has_bias_) gradients.push_back(rows.sum(0));
    return gradients;
  }

  void add_backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors&, Tensors& sums) const override {
    const at::Tensor rows = as_rows(gradient);
    sums[0].addmm_(rows.t(), as_rows(kept.inputs[0]));
    if (has_bias_) sums[1].add_(rows.sum(0));
  }

 private:
  static at::Tensor as_rows(const at::Tensor& tensor) {
    return tensor.dim() == 2 ? tensor : tensor.reshape({-1, tensor.size(-1)});
  }
  // The rows in the shape of `tensor`, but for the last dimension.
  static at::Tensor like(const at::Tensor& tensor, at::Tensor rows) {
    if (tensor.dim() == 2) return rows;
    at::DimVector sizes(tensor.sizes());
    sizes.back() = rows.size(1);
    return rows.view(sizes);
  }

  bool wants_gradient_;
  bool has_bias_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_linear(LayerDescription description) {
  return std::make_unique<Linear>(std::move(description));
}

}  // namespace pipewright
