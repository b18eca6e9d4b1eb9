// attention: softmax(Q K^T / sqrt(features of a head)) V over heads, of inputs
// that linear layers have projected. Keeps its inputs and the probabilities,
// with dropout also the mask.

#include <cmath>
#include <limits>

#include "pipewright/runtime/layers/attention_tensors.h"
#include "pipewright/runtime/layers/device_constant.h"
#include "pipewright/runtime/layers/dropout_mask.h"
#include "pipewright/runtime/layers/softmax_kernel.h"

namespace pipewright {
namespace {

// (samples * heads) x positions x features of a head, contiguous per head:
// matrix products read them without a copy.
struct Heads {
  at::Tensor query, key, value;
};

class Attention final : public LayerFunction {
 public:
  explicit Attention(LayerDescription description)
      : description_(std::move(description)),
        heads_(integer(description_.attributes(), "heads")),
        causal_(flag(description_.attributes(), "causal")),
        dropout_(real(description_.attributes(), "dropout")) {
    if (causal_) future_ = future_positions(description_);
  }

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext& context) const override {
    const Heads heads = split_heads(inputs);
    const at::Tensor probabilities =
        softmax(at::bmm(heads.query, heads.key.transpose(1, 2)), scale(heads));
    if (dropout_ == 0 || !context.training)
      return {joined(at::bmm(probabilities, heads.value)),
              {by_sample(probabilities)}};
    const at::Tensor mask = dropout_mask(by_sample(probabilities),
                                         description_.id, dropout_, context);
    return {joined(at::bmm(dropped(probabilities, by_head(mask)), heads.value)),
            {by_sample(probabilities), mask}};
  }

  Tensors backward_input(const KeptTensors& kept, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    const Heads heads = split_heads(kept.inputs);
    const at::Tensor probabilities = by_head(kept.kept_private[0]);
    const bool has_dropout = dropout_ > 0;
    const at::Tensor mask =
        has_dropout ? by_head(kept.kept_private[1]) : at::Tensor();
    const at::Tensor used =
        has_dropout ? dropped(probabilities, mask) : probabilities;
    const at::Tensor of_output = split(gradient);
    at::Tensor of_probabilities =
        at::bmm(of_output, heads.value.transpose(1, 2));
    if (has_dropout) of_probabilities = dropped(of_probabilities, mask);
    at::Tensor of_scores = at::_softmax_backward_data(
        of_probabilities, probabilities, -1, probabilities.scalar_type());
    of_scores.mul_(scale(heads));
    return packed({joined(at::bmm(of_scores, heads.key)),
                   joined(at::bmm(of_scores.transpose(1, 2), heads.query)),
                   joined(at::bmm(used.transpose(1, 2), of_output))},
                  description_);
  }

  bool draws() const override { return dropout_ > 0; }

 private:
  static constexpr double kMinusInfinity =
      -std::numeric_limits<double>::infinity();

  at::Tensor split(const at::Tensor& tensor) const {
    const std::int64_t features = tensor.size(2) / heads_;
    return tensor.reshape({tensor.size(0), tensor.size(1), heads_, features})
        .transpose(1, 2)
        .reshape({-1, tensor.size(1), features});
  }
  at::Tensor joined(const at::Tensor& heads) const {
    return by_sample(heads).transpose(1, 2).flatten(2);
  }
  // What is kept has samples in the first dimension, like everything that is
  // sent.
  at::Tensor by_sample(const at::Tensor& heads) const {
    return heads.view({-1, heads_, heads.size(1), heads.size(2)});
  }
  static at::Tensor by_head(const at::Tensor& samples) {
    return samples.flatten(0, 1);
  }
  // May overwrite the scores.
  at::Tensor softmax(at::Tensor scores, double scale) const {
    if (!scores.is_cpu() || scores.scalar_type() != at::kFloat ||
        !scores.is_contiguous()) {
      scores.mul_(scale);
      if (causal_)
        scores.masked_fill_(future_.on(scores.device()), kMinusInfinity);
      return at::_softmax(scores, -1, false);
    }
    softmax_of_scores(scores.data_ptr<float>(), scores.size(0), scores.size(1),
                      scores.size(2), static_cast<float>(scale), causal_);
    return scores;
  }
  static double scale(const Heads& heads) {
    return 1 / std::sqrt(static_cast<double>(heads.query.size(2)));
  }

  Heads split_heads(const Tensors& inputs) const {
    const auto [query, key, value] = unpacked(inputs);
    return {split(query), split(key), split(value)};
  }

  at::Tensor dropped(const at::Tensor& tensor, const at::Tensor& mask) const {
    return at::native_dropout_backward(tensor, mask, 1 / (1 - dropout_));
  }

  LayerDescription description_;
  std::int64_t heads_;
  bool causal_;
  double dropout_;
  DeviceConstant
      future_;  // positions x positions that causal attention leaves out
};

}  // namespace

std::unique_ptr<const LayerFunction> make_attention(
    LayerDescription description) {
  if (flag(description.attributes(), "flash"))
    return make_flash_attention(std::move(description));
  return std::make_unique<Attention>(std::move(description));
}

}  // namespace pipewright
