#include "pipewright/runtime/training/score.h"

#include <algorithm>

namespace pipewright {
namespace {

// An input without dimensions is one number for all of them.
std::int64_t num_samples(const Tensors& inputs) {
  for (const at::Tensor& input : inputs)
    if (input.dim() > 0) return input.size(0);
  return 0;
}

}  // namespace

Score& Score::operator+=(const Score& other) {
  loss += other.loss;
  samples += other.samples;
  targets += other.targets;
  hits += other.hits;
  return *this;
}

Score score_of(const Layer& layer, const LayerFunction& function,
               const Tensors& inputs, std::int64_t valid,
               const Tensors& weights, Tensors* statistics) {
  Score score;
  const std::int64_t given = num_samples(inputs);
  score.samples = std::clamp<std::int64_t>(valid, 0, given);
  if (score.samples == 0) return score;
  Tensors seen;
  for (const at::Tensor& input : inputs)
    seen.push_back(input.dim() > 0 && input.size(0) == given
                       ? input.narrow(0, 0, score.samples)
                       : input);
  ForwardContext context;
  context.training = false;
  context.statistics = statistics;
  score.loss = function.forward(seen, weights, context).output.item<double>() *
               static_cast<double>(score.samples);
  const bool multiplies = layer.kind == LayerKind::LinearCrossEntropy;
  if (multiplies || layer.kind == LayerKind::CrossEntropy) {
    const at::Tensor logits =
        multiplies ? at::matmul(seen[0], weights[0].t()) : seen[0];
    score.targets = seen[1].numel();
    score.hits = logits.argmax(-1).eq(seen[1]).sum().item<std::int64_t>();
  }
  return score;
}

}  // namespace pipewright
