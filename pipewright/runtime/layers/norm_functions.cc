// layer_norm and batch_norm. Both keep their input and two private statistics:
// per row for layer_norm, per channel of the microbatch for batch_norm.

#include <array>
#include <tuple>

#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

// Over the last dimension.
class LayerNorm final : public LayerFunction {
 public:
  explicit LayerNorm(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        shape_(description.parameter_shapes.at(0)),
        epsilon_(real(description.attributes(), "epsilon")) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    const FusedKernels* fused = fused_kernels(inputs[0]);
    if (fused && is_short()) return normalized(*fused, inputs[0], weights);
    auto [output, mean, scale] = at::native_layer_norm(
        inputs[0], shape_, weights[0], weights[1], epsilon_);
    return {output, {mean, scale}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    if (!is_fused(kept, gradient))
      return {std::get<0>(
          halves(kept, weights[0], gradient, {true, false, false}))};
    at::Tensor result = at::empty(gradient.sizes(), gradient.options());
    to_input(kept, weights[0], gradient, false, result);
    return list_of(std::move(result));
  }
  bool add_backward_input(const KeptTensors& kept, const Tensors& weights,
                          const at::Tensor& gradient,
                          at::Tensor& sum) const override {
    if (!wants_gradient_ || !is_fused(kept, gradient)) return false;
    to_input(kept, weights[0], gradient, true, sum);
    return true;
  }
  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    const FusedKernels* fused = kernels_for(kept, gradient);
    if (fused) {
      Tensors sums = {at::empty(shape_, gradient.options()),
                      at::empty(shape_, gradient.options())};
      add(*fused, kept, gradient, true, sums);
      return sums;
    }
    Tensors sums = {at::zeros(shape_, gradient.options()),
                    at::zeros(shape_, gradient.options())};
    add_backward_weight(kept, gradient, {}, sums);
    return sums;
  }
  void add_backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors&, Tensors& sums) const override {
    if (const FusedKernels* fused = kernels_for(kept, gradient))
      return add(*fused, kept, gradient, false, sums);
    // The gain's gradient does not depend on the gain: any tensor of its shape
    // will do.
    auto [none, gain, shift] =
        halves(kept, sums[0], gradient, {false, true, true});
    sums[0].add_(gain);
    sums[1].add_(shift);
  }

 private:
  bool is_short() const {
    return shape_.size() == 1 && shape_[0] <= FusedKernels::kMaxNormColumns;
  }
  bool is_fused(const KeptTensors& kept, const at::Tensor& gradient) const {
    return is_short() && kernels_for(kept, gradient);
  }
  static void to_input(const KeptTensors& kept, const at::Tensor& gain,
                       const at::Tensor& gradient, bool adds,
                       at::Tensor& result) {
    fused_kernels(gradient)->normalize_backward(
        gradient, kept.inputs[0], gain, kept.kept_private[0].contiguous(),
        kept.kept_private[1].contiguous(), adds, result);
  }

  Forwarded normalized(const FusedKernels& fused, const at::Tensor& input,
                       const Tensors& weights) const {
    std::vector<std::int64_t> rows = input.sizes().vec();
    rows.back() = 1;
    at::Tensor output = at::empty(input.sizes(), input.options());
    at::Tensor mean = at::empty(rows, input.options().dtype(at::kFloat));
    at::Tensor scale = at::empty_like(mean);
    fused.normalize(input, weights[0], weights[1], epsilon_, output, mean,
                    scale);
    return {output, {mean, scale}};
  }

  // Statistics made on a core may be of 16 bit.
  static const FusedKernels* kernels_for(const KeptTensors& kept,
                                         const at::Tensor& gradient) {
    return kept.kept_private[0].scalar_type() == at::kFloat
               ? fused_kernels(gradient)
               : nullptr;
  }
  static void add(const FusedKernels& fused, const KeptTensors& kept,
                  const at::Tensor& gradient, bool is_first, Tensors& sums) {
    fused.sum_norm(gradient, kept.inputs[0], kept.kept_private[0].contiguous(),
                   kept.kept_private[1].contiguous(), is_first, sums[0],
                   sums[1]);
  }

  std::tuple<at::Tensor, at::Tensor, at::Tensor> halves(
      const KeptTensors& kept, const at::Tensor& gain,
      const at::Tensor& gradient, std::array<bool, 3> mask) const {
    return at::native_layer_norm_backward(
        gradient.contiguous(), kept.inputs[0], shape_, kept.kept_private[0],
        kept.kept_private[1], gain, gain, mask);
  }

  bool wants_gradient_;
  std::vector<std::int64_t> shape_;
  double epsilon_;
};

// Over samples and space, per channel.
class BatchNorm final : public LayerFunction {
 public:
  explicit BatchNorm(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        shape_(description.parameter_shapes.at(0)),
        type_(scalar_type(description.layer->output_type)),
        epsilon_(real(description.attributes(), "epsilon")),
        momentum_(real(description.attributes(), "momentum")) {}

  // Without running statistics (in a recomputation) the output is the same.
  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext& context) const override {
    at::Tensor mean, variance;
    if (context.statistics) {
      mean = context.statistics->at(0);
      variance = context.statistics->at(1);
    }
    auto [output, batch_mean, batch_scale] =
        at::native_batch_norm(inputs[0], weights[0], weights[1], mean, variance,
                              context.training, momentum_, epsilon_);
    return {output, {batch_mean, batch_scale}};
  }
  Tensors backward_input(const KeptTensors& kept, const Tensors& weights,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {
        std::get<0>(halves(kept, weights[0], gradient, {true, false, false}))};
  }
  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    auto [none, gain, shift] =
        halves(kept, at::empty(shape_, gradient.options()), gradient,
               {false, true, true});
    return {gain, shift};
  }
  Tensors initial_statistics() const override {
    return {at::zeros(shape_, type_), at::ones(shape_, type_)};
  }

 private:
  std::tuple<at::Tensor, at::Tensor, at::Tensor> halves(
      const KeptTensors& kept, const at::Tensor& gain,
      const at::Tensor& gradient, std::array<bool, 3> mask) const {
    return at::native_batch_norm_backward(
        gradient, kept.inputs[0], gain, {}, {}, kept.kept_private[0],
        kept.kept_private[1], true, epsilon_, mask);
  }

  bool wants_gradient_;
  std::vector<std::int64_t> shape_;  // of the gain: the channels
  at::ScalarType type_;
  double epsilon_;
  double momentum_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_layer_norm(
    LayerDescription description) {
  return std::make_unique<LayerNorm>(description);
}
std::unique_ptr<const LayerFunction> make_batch_norm(
    LayerDescription description) {
  return std::make_unique<BatchNorm>(description);
}

}  // namespace pipewright
