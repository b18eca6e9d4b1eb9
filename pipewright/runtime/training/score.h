// What an evaluation counts at the loss layer: for one worker and microbatch,
// and summed over many.

#pragma once

#include <cstdint>

#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct Score {
  double loss = 0;           // summed over samples
  std::int64_t samples = 0;  // seen
  // Targets, and how many of them had the largest output; 0 without classes. A
  // sequence has a target for each of its positions.
  std::int64_t targets = 0, hits = 0;

  Score& operator+=(const Score& other);
};

// The score of the first `valid` samples that a loss layer was given; the
// others only fill the microbatch. Weights and running statistics are those of
// that layer, if it has any.
Score score_of(const Layer& layer, const LayerFunction& function,
               const Tensors& inputs, std::int64_t valid,
               const Tensors& weights = {}, Tensors* statistics = nullptr);

}  // namespace pipewright
