// Sums by layer and minibatch; see gradient_sums.h.

#include "pipewright/runtime/execution/gradient_sums.h"

namespace pipewright {

Tensors& GradientSums::of(LayerId layer, std::int32_t minibatch) {
  auto& sums = layers_[layer.index()];
  Sum* unused = nullptr;
  for (Sum& sum : sums) {
    if (sum.minibatch == minibatch) return sum.tensors;
    if (sum.minibatch == kNone) unused = &sum;
  }
  if (!unused) unused = &sums.emplace_back();
  unused->minibatch = minibatch;
  return unused->tensors;
}

const Tensors* GradientSums::find(LayerId layer, std::int32_t minibatch) const {
  for (const Sum& sum : layers_[layer.index()])
    if (sum.minibatch == minibatch && !sum.tensors.empty()) return &sum.tensors;
  return nullptr;
}

void GradientSums::drop(LayerId layer, std::int32_t minibatch) {
  for (Sum& sum : layers_[layer.index()]) {
    if (sum.minibatch != minibatch) continue;
    sum.minibatch = kNone;
    sum.tensors.clear();
  }
}

void GradientSums::clear() {
  for (auto& sums : layers_) sums.clear();
}

}  // namespace pipewright
