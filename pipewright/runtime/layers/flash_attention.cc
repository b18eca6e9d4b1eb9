// attention with flash: softmax(Q K^T / sqrt(features of a head)) V, of which
// only the output and the logarithm of each row's sum are kept.

#include <cmath>

#include "pipewright/runtime/layers/device_constant.h"
#include "pipewright/runtime/layers/flash_kernels.h"

namespace pipewright {
namespace {

class FlashAttention final : public LayerFunction {
 public:
  explicit FlashAttention(LayerDescription description)
      : description_(std::move(description)),
        heads_(integer(description_.attributes(), "heads")),
        causal_(flag(description_.attributes(), "causal")) {
    if (causal_) future_ = future_positions(description_);
    const auto& shapes = description_.input_shapes;
    if (shapes.front()[0] == shapes.back()[0])
      starts_ = sample_starts(shapes.front()[0]);
  }

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    const AttentionTensors heads = by_head(unpacked(inputs));
    auto [output, sums] = flash_attention(heads, settings(heads.query));
    return {joined(output), {sums.contiguous()}};
  }

  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    const AttentionTensors heads = by_head(unpacked(kept.inputs));
    const AttentionTensors of_heads =
        flash_gradients(heads, by_head(kept.output), kept.kept_private[0],
                        by_head(gradient), settings(heads.query));
    return packed(
        {joined(of_heads.query), joined(of_heads.key), joined(of_heads.value)},
        description_);
  }

 private:
  // Samples x heads x positions x features of a head, and back.
  at::Tensor by_head(const at::Tensor& tensor) const {
    return tensor.unflatten(2, {heads_, -1}).transpose(1, 2);
  }
  AttentionTensors by_head(const AttentionTensors& tensors) const {
    return {by_head(tensors.query), by_head(tensors.key),
            by_head(tensors.value)};
  }
  static at::Tensor joined(const at::Tensor& heads) {
    return heads.transpose(1, 2).flatten(2);
  }
  FlashSettings settings(const at::Tensor& query) const {
    FlashSettings all{causal_,
                      1 / std::sqrt(static_cast<double>(query.size(3)))};
    if (needs_future(all, query)) all.future = future_.on(query.device());
    if (starts_.defined() && needs_starts(all, query))
      all.starts = starts_.on(query.device());
    return all;
  }

  LayerDescription description_;
  std::int64_t heads_;
  bool causal_;
  DeviceConstant future_;  // what causal attention leaves out
  DeviceConstant starts_;  // undefined if queries and keys differ in number
};

}  // namespace

std::unique_ptr<const LayerFunction> make_flash_attention(
    LayerDescription description) {
  return std::make_unique<FlashAttention>(std::move(description));
}

}  // namespace pipewright
