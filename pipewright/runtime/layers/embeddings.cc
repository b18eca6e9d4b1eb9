// embedding: a row of the table for each token; its backward keeps the tokens.
// positional: a row added to each position, learned or of sines and cosines;
// its backward keeps nothing.

#include <cmath>

#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/layers/device_constant.h"
#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

class Embedding final : public LayerFunction {
 public:
  explicit Embedding(const LayerDescription& description)
      : rows_(description.parameter_shapes.at(0).at(0)),
        scale_(real(description.attributes(), "scale")) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    at::Tensor output = at::embedding(weights[0], inputs[0]);
    return {scale_ == 1 ? output : output.mul_(scale_), {}};
  }
  // Tokens have no gradient.
  Tensors backward_input(const KeptTensors&, const Tensors&, const at::Tensor&,
                         Tensors*) const override {
    return {at::Tensor()};
  }
  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors&) const override {
    if (const FusedKernels* fused = kernels_for(kept, gradient)) {
      Tensors sums = {
          at::zeros({rows_, gradient.size(-1)}, gradient.options())};
      fused->add_to_table(kept.inputs[0], gradient, scale_, sums[0]);
      return sums;
    }
    at::Tensor table = at::embedding_dense_backward(
        gradient.contiguous(), kept.inputs[0], rows_, -1, false);
    return {scale_ == 1 ? table : table.mul_(scale_)};
  }
  void add_backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors& carried,
                           Tensors& sums) const override {
    if (const FusedKernels* fused = kernels_for(kept, gradient))
      fused->add_to_table(kept.inputs[0], gradient, scale_, sums[0]);
    else
      LayerFunction::add_backward_weight(kept, gradient, carried, sums);
  }

 private:
  // Of many tokens sorting them is faster than comparing each with all.
  static const FusedKernels* kernels_for(const KeptTensors& kept,
                                         const at::Tensor& gradient) {
    constexpr std::int64_t kMaxTokens = 1 << 15;
    return kept.inputs[0].numel() <= kMaxTokens ? fused_kernels(gradient)
                                                : nullptr;
  }

  std::int64_t rows_;
  double scale_;
};

// Row p: the sines and cosines of p / 10000^(2i / features).
at::Tensor sine_table(std::int64_t positions, std::int64_t features) {
  at::Tensor table = at::empty({positions, features}, at::kDouble);
  auto rows = table.accessor<double, 2>();
  for (std::int64_t p = 0; p < positions; ++p)
    for (std::int64_t f = 0; f < features; ++f) {
      const auto exponent = static_cast<double>(f - f % 2);
      const double angle =
          static_cast<double>(p) /
          std::pow(10000.0, exponent / static_cast<double>(features));
      rows[p][f] = f % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  return table;
}

class Positional final : public LayerFunction {
 public:
  explicit Positional(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        positions_(integer(description.attributes(), "positions")) {
    const Shape& input = description.input_shapes[0];
    if (!flag(description.attributes(), "learned"))
      fixed_ = sine_table(input[0], input[1])
                   .to(scalar_type(description.layer->output_type));
  }

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    const at::Tensor rows = is_learned()
                                ? weights[0].narrow(0, 0, inputs[0].size(1))
                                : fixed_.on(inputs[0].device());
    return {at::add(inputs[0], rows), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    return {wants_gradient_ ? gradient : at::Tensor()};
  }
  Tensors backward_weight(const KeptTensors&, const at::Tensor& gradient,
                          const Tensors&) const override {
    if (!is_learned()) return {};
    const at::Tensor used = gradient.sum(0);
    if (used.size(0) == positions_) return {used};
    at::Tensor table =
        at::zeros({positions_, used.size(1)}, gradient.options());
    table.narrow(0, 0, used.size(0)).copy_(used);
    return {table};
  }

 private:
  bool is_learned() const { return !fixed_.defined(); }

  bool wants_gradient_;
  std::int64_t positions_;
  DeviceConstant fixed_;  // undefined where the table is learned
};

}  // namespace

std::unique_ptr<const LayerFunction> make_embedding(
    LayerDescription description) {
  return std::make_unique<Embedding>(description);
}
std::unique_ptr<const LayerFunction> make_positional(
    LayerDescription description) {
  return std::make_unique<Positional>(description);
}

}  // namespace pipewright
