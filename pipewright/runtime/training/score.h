// What an evaluation counts where the loss is: the part of one worker and one
// microbatch, and the sum of many.

#pragma once

#include <cstdint>

#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct Score {
  double loss = 0;           // summed over samples
  std::int64_t samples = 0;  // seen
  // Targets, and those that the largest output hit; none without classes. A
  // sequence has a target for each of its places.
  std::int64_t targets = 0, hits = 0;

  Score& operator+=(const Score& other);
};

// Of the first `valid` of the samples that a layer which is_loss() was given;
// the others only fill the microbatch.
Score score_of(const Layer& layer, const LayerFunction& function,
               const Tensors& inputs, std::int64_t valid);

}  // namespace pipewright
