#include "pipewright/runtime/training/score.h"

#include <algorithm>

namespace pipewright {

Score& Score::operator+=(const Score& other) {
  loss += other.loss;
  samples += other.samples;
  targets += other.targets;
  hits += other.hits;
  return *this;
}

Score score_of(const Layer& layer, const LayerFunction& function,
               const Tensors& inputs, std::int64_t valid) {
  Score score;
  score.samples = std::clamp<std::int64_t>(valid, 0, inputs[0].size(0));
  if (score.samples == 0) return score;
  Tensors seen;
  for (const at::Tensor& input : inputs)
    seen.push_back(input.narrow(0, 0, score.samples));
  ForwardContext context;
  context.training = false;
  score.loss = function.forward(seen, {}, context).output.item<double>() *
               static_cast<double>(score.samples);
  if (layer.kind == LayerKind::CrossEntropy) {
    score.targets = seen[1].numel();
    score.hits = seen[0].argmax(-1).eq(seen[1]).sum().item<std::int64_t>();
  }
  return score;
}

}  // namespace pipewright
