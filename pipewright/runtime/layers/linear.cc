// linear: output = input * weight^T + bias over the last dimension. Its
// backward keeps the input.

#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/layers/bias_kernels.h"
#include "pipewright/runtime/layers/layer_description.h"
#include "pipewright/runtime/layers/uneven_products.h"

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
    const Rows rows = as_rows(input);
    if (is_uneven(weights[0]))
      return {like(input, uneven_output(*rows, weights[0],
                                        has_bias_ ? weights[1] : at::Tensor())),
              {}};
    if (!has_bias_) return {like(input, at::mm(*rows, weights[0].t())), {}};
    if (rows->is_cuda())
      return {like(input, at::addmm(weights[1], *rows, weights[0].t())), {}};
    at::Tensor output = repeated_bias(weights[1], rows->size(0));
    output.addmm_(*rows, weights[0].t());
    return {like(input, std::move(output)), {}};
  }

  Tensors backward_input(const KeptTensors&, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    const Rows rows = as_rows(gradient);
    return list_of(like(gradient, is_uneven(weights[0])
                                      ? uneven_input_gradient(*rows, weights[0])
                                      : at::mm(*rows, weights[0])));
  }

  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    const Rows rows = as_rows(gradient);
    Tensors sums = list_of(of_weights(*rows, *as_rows(kept.inputs[0])));
    if (has_bias_) sums.push_back(of_bias(*rows));
    return sums;
  }

  void add_backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors&, Tensors& sums) const override {
    const Rows rows = as_rows(gradient);
    const Rows inputs = as_rows(kept.inputs[0]);
    if (is_uneven(sums[0]))
      uneven_weight_gradient(*rows, *inputs, true, sums[0]);
    else
      sums[0].addmm_(rows->t(), *inputs);
    if (!has_bias_) return;
    if (const FusedKernels* fused = fused_kernels(*rows))
      fused->sum_rows(*rows, false, sums[1]);
    else
      add_row_sum(*rows, sums[1]);
  }

 private:
  using Rows =
      c10::MaybeOwned<at::Tensor>;  // no copy of what has two dimensions

  static at::Tensor of_weights(const at::Tensor& rows,
                               const at::Tensor& inputs) {
    if (!rows.is_cuda()) return at::mm(rows.t(), inputs);
    at::Tensor sum =
        at::empty({rows.size(1), inputs.size(1)}, inputs.options());
    if (!is_uneven(sum)) return at::mm_out(sum, rows.t(), inputs);
    uneven_weight_gradient(rows, inputs, false, sum);
    return sum;
  }
  static at::Tensor of_bias(const at::Tensor& rows) {
    const FusedKernels* fused = fused_kernels(rows);
    if (!fused) return rows.sum(0);
    at::Tensor sum = at::empty({rows.size(1)}, rows.options());
    fused->sum_rows(rows, true, sum);
    return sum;
  }
  static Rows as_rows(const at::Tensor& tensor) {
    return tensor.dim() == 2
               ? Rows::borrowed(tensor)
               : Rows::owned(tensor.reshape({-1, tensor.size(-1)}));
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
