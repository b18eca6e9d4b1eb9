// See softmax_kernel.h.

#include "pipewright/runtime/layers/softmax_kernel.h"

#include <array>
#include <cstddef>

#include "pipewright/runtime/layers/vector_math.h"

namespace pipewright {
namespace {

// Sums and maxima are kept in this many lanes, so that vectors can be used.
constexpr std::int64_t kLanes = 16;

// The first `count` of a row; the rest after whole lanes is done one by one.
PIPEWRIGHT_VECTORS void softmax_row(float* row, std::int64_t count,
                                    float scale) {
  const std::int64_t whole = count - count % kLanes;
  std::array<float, kLanes> lanes;
  lanes.fill(row[0]);
  for (std::int64_t i = 0; i < whole; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) {
      float& largest = lanes[l];
      largest = row[i + l] > largest ? row[i + l] : largest;
    }
  float largest = row[0];
  for (const float lane : lanes) largest = std::max(largest, lane);
  for (std::int64_t i = whole; i < count; ++i)
    largest = std::max(largest, row[i]);
  lanes.fill(0);
  for (std::int64_t i = 0; i < whole; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l) {
      row[i + l] = exp_of_negative(scale * (row[i + l] - largest));
      lanes[l] += row[i + l];
    }
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  for (std::int64_t i = whole; i < count; ++i) {
    row[i] = exp_of_negative(scale * (row[i] - largest));
    sum += row[i];
  }
  const float share = 1 / sum;
  for (std::int64_t i = 0; i < count; ++i) row[i] *= share;
}

}  // namespace

void softmax_of_scores(float* scores, std::int64_t heads,
                       std::int64_t positions, std::int64_t keys, float scale,
                       bool causal) {
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t p = 0; p < positions; ++p, scores += keys) {
      const std::int64_t seen = causal ? std::min(p + 1, keys) : keys;
      softmax_row(scores, seen, scale);
      std::fill(scores + seen, scores + keys, 0.F);
    }
}

}  // namespace pipewright
