// The softmax of attention over plain floats, for layers/attention.cc: scaled,
// and for causal attention only over the keys that are attended to.

#pragma once

#include <cstdint>

namespace pipewright {

// Scores of heads x positions x keys become probabilities, in place: each row
// the softmax of `scale` times it. Causal: position i attends to keys 0 to i,
// and the others' probability is 0. `scale` is positive.
void softmax_of_scores(float* scores, std::int64_t heads,
                       std::int64_t positions, std::int64_t keys, float scale,
                       bool causal);

}  // namespace pipewright
