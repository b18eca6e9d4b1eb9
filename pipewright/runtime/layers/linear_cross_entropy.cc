// linear_cross_entropy: the cross entropy of input * weight^T. Logits are in
// the memory of their derivative, and but for that nothing passes over all of
// them but products. Its backward keeps the input and the derivative, before it
// is scaled.

#include <algorithm>

#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/layers/layer_description.h"
#include "pipewright/runtime/layers/logit_losses.h"
#include "pipewright/runtime/layers/uneven_products.h"

namespace pipewright {
namespace {

// LibTorch's kernels need as much memory again: they work on so many bytes of
// logits at a time. Our own do not, and large products are faster.
constexpr std::int64_t kPieceBytes = std::int64_t{24} << 20;
constexpr std::int64_t kRowUnit = 64;  // products like even sizes

std::int64_t rows_of_piece(const at::Tensor& logits) {
  if (fused_kernels(logits)) return logits.size(0);
  const std::int64_t bytes = logits.size(1) * logits.element_size();
  return std::max(kPieceBytes / bytes / kRowUnit, std::int64_t{1}) * kRowUnit;
}

at::Tensor in_rows(const at::Tensor& tensor) {
  return tensor.reshape({-1, tensor.size(-1)});
}

class LinearCrossEntropy final : public LayerFunction {
 public:
  explicit LinearCrossEntropy(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    const at::Tensor rows = in_rows(inputs[0]);
    const at::Tensor targets = inputs[1].reshape({-1});
    const at::Tensor derivative =
        spaced_rows({rows.size(0), weights[0].size(0)}, rows.options());
    Tensors losses;
    const std::int64_t piece = rows_of_piece(derivative);
    for (std::int64_t first = 0; first < rows.size(0); first += piece) {
      const std::int64_t count = std::min(piece, rows.size(0) - first);
      at::Tensor logits = derivative.narrow(0, first, count);
      multiply(rows.narrow(0, first, count), weights[0], logits);
      losses.push_back(
          losses_in_place(logits, targets.narrow(0, first, count)));
    }
    at::DimVector sizes(inputs[0].sizes());
    sizes.back() = weights[0].size(0);
    return {at::cat(losses).mean().to(rows.scalar_type()),
            {derivative.view(sizes)}};
  }

  Tensors backward_input(const KeptTensors& kept, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor(), at::Tensor()};
    const at::Tensor derivative = in_rows(kept.kept_private[0]);
    at::Tensor rows = is_uneven(weights[0])
                          ? uneven_input_gradient(derivative, weights[0])
                          : at::mm(derivative, weights[0]);
    rows.mul_(scale(gradient, derivative));
    return {rows.view(kept.inputs[0].sizes()), at::Tensor()};
  }

  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    const at::Tensor derivative = in_rows(kept.kept_private[0]);
    const at::Tensor rows = scaled_input(kept, gradient, derivative);
    at::Tensor sum =
        at::empty({derivative.size(1), rows.size(1)}, rows.options());
    if (is_uneven(sum))
      uneven_weight_gradient(derivative, rows, false, sum);
    else
      at::mm_out(sum, derivative.t(), rows);
    return list_of(std::move(sum));
  }

  void add_backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors&, Tensors& sums) const override {
    const at::Tensor derivative = in_rows(kept.kept_private[0]);
    const at::Tensor rows = scaled_input(kept, gradient, derivative);
    if (is_uneven(sums[0]))
      uneven_weight_gradient(derivative, rows, true, sums[0]);
    else
      sums[0].addmm_(derivative.t(), rows);
  }

 private:
  static void multiply(const at::Tensor& rows, const at::Tensor& weights,
                       at::Tensor& logits) {
    if (is_uneven(weights))
      write_uneven_output(rows, weights, at::Tensor(), logits);
    else
      at::mm_out(logits, rows, weights.t());
  }

  // Of the mean over rows: the smaller factor of each product is scaled.
  static at::Tensor scale(const at::Tensor& gradient,
                          const at::Tensor& derivative) {
    const at::ScalarType type =
        gradient.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    return gradient.to(type).div(static_cast<double>(derivative.size(0)));
  }
  static at::Tensor scaled_input(const KeptTensors& kept,
                                 const at::Tensor& gradient,
                                 const at::Tensor& derivative) {
    return in_rows(kept.inputs[0]).mul(scale(gradient, derivative));
  }

  bool wants_gradient_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_linear_cross_entropy(
    LayerDescription description) {
  return std::make_unique<LinearCrossEntropy>(description);
}

}  // namespace pipewright
