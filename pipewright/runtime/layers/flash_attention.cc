// attention with flash: softmax(Q K^T / sqrt(features of a head)) V, of which
// only the output and the logarithm of each row's sum are kept. Where ATen has
// a kernel that never writes the scores down (cores, and GPUs in 16 bit), that
// one is used; elsewhere the scores are made again by products.

#include <cmath>
#include <limits>

#include "pipewright/runtime/layers/attention_tensors.h"
#include "pipewright/runtime/layers/device_constant.h"

namespace pipewright {
namespace {

bool has_gpu_kernel(const at::Tensor& tensor) {
  return tensor.is_cuda() && (tensor.scalar_type() == at::kBFloat16 ||
                              tensor.scalar_type() == at::kHalf);
}

class FlashAttention final : public LayerFunction {
 public:
  explicit FlashAttention(LayerDescription description)
      : description_(std::move(description)),
        heads_(integer(description_.attributes(), "heads")),
        causal_(flag(description_.attributes(), "causal")),
        features_(description_.layer->output.back() / heads_) {
    if (causal_) future_ = future_positions(description_);
  }

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    const AttentionTensors heads = by_head(unpacked(inputs));
    auto [output, sums] = attended(heads);
    return {joined(output), {sums.contiguous()}};
  }

  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    const AttentionTensors heads = by_head(unpacked(kept.inputs));
    const AttentionTensors of_heads = gradients(
        heads, by_head(kept.output), kept.kept_private[0], by_head(gradient));
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
  static double scale(const AttentionTensors& heads) {
    return 1 / std::sqrt(static_cast<double>(heads.query.size(3)));
  }

  // The GPU's kernel takes features of a head in eights; zeros change nothing.
  at::Tensor padded(const at::Tensor& heads) const {
    const std::int64_t missing = (8 - heads.size(3) % 8) % 8;
    return missing == 0 ? heads : at::constant_pad_nd(heads, {0, missing});
  }
  at::Tensor unpadded(const at::Tensor& heads) const {
    return heads.narrow(3, 0, features_);
  }

  // The output, and the logarithm of the sum of each row's exponentials.
  std::pair<at::Tensor, at::Tensor> attended(
      const AttentionTensors& heads) const {
    const auto& [query, key, value] = heads;
    if (query.is_cpu()) {
      auto [output, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
          query, key, value, 0, causal_, {}, scale(heads));
      return {output, sums};
    }
    if (has_gpu_kernel(query)) {
      const auto result = at::_scaled_dot_product_flash_attention(
          padded(query), padded(key), padded(value), 0, causal_, false,
          scale(heads));
      return {unpadded(std::get<0>(result)), std::get<1>(result)};
    }
    const at::Tensor scores = scores_of(heads);
    const at::Tensor sums = scores.logsumexp(-1);
    return {probabilities(scores, sums).matmul(value), sums};
  }

  AttentionTensors gradients(const AttentionTensors& heads,
                             const at::Tensor& output, const at::Tensor& sums,
                             const at::Tensor& of_output) const {
    const auto& [query, key, value] = heads;
    if (query.is_cpu()) {
      auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          of_output, query, key, value, output, sums, 0, causal_, {},
          scale(heads));
      return {q, k, v};
    }
    if (!has_gpu_kernel(query))
      return gradients_by_products(heads, output, sums, of_output);
    // Of random numbers, which nothing is dropped by.
    const at::Tensor none = at::empty({2}, query.options().dtype(at::kUInt64));
    auto [q, k, v] = at::_scaled_dot_product_flash_attention_backward(
        padded(of_output), padded(query), padded(key), padded(value),
        padded(output), sums, at::Tensor(), at::Tensor(), query.size(2),
        key.size(2), 0, causal_, none, none, scale(heads));
    return {unpadded(q), unpadded(k), unpadded(v)};
  }

  AttentionTensors gradients_by_products(const AttentionTensors& heads,
                                         const at::Tensor& output,
                                         const at::Tensor& sums,
                                         const at::Tensor& of_output) const {
    const at::Tensor used = probabilities(scores_of(heads), sums);
    const at::Tensor rows = of_output.mul(output).sum(-1, true);
    const at::Tensor of_scores = of_output.matmul(heads.value.transpose(2, 3))
                                     .sub_(rows)
                                     .mul_(used)
                                     .mul_(scale(heads));
    return {of_scores.matmul(heads.key),
            of_scores.transpose(2, 3).matmul(heads.query),
            used.transpose(2, 3).matmul(of_output)};
  }

  at::Tensor scores_of(const AttentionTensors& heads) const {
    at::Tensor scores =
        heads.query.matmul(heads.key.transpose(2, 3)).mul_(scale(heads));
    if (causal_)
      scores.masked_fill_(future_.on(scores.device()),
                          -std::numeric_limits<double>::infinity());
    return scores;
  }
  static at::Tensor probabilities(const at::Tensor& scores,
                                  const at::Tensor& sums) {
    return scores.sub(sums.unsqueeze(-1)).exp_();
  }

  LayerDescription description_;
  std::int64_t heads_;
  bool causal_;
  std::int64_t features_;  // of a head
  DeviceConstant future_;  // what causal attention leaves out
};

}  // namespace

std::unique_ptr<const LayerFunction> make_flash_attention(
    LayerDescription description) {
  return std::make_unique<FlashAttention>(std::move(description));
}

}  // namespace pipewright
