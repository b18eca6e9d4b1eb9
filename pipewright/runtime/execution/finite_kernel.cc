// See finite_kernel.h.

#include "pipewright/runtime/execution/finite_kernel.h"

#include "pipewright/runtime/layers/vector_math.h"

namespace pipewright {

// Infinity and NaN have an exponent of ones alone: one more and
// it runs over into the sign.
PIPEWRIGHT_VECTORS bool all_finite(const float* numbers, std::int64_t count) {
  constexpr std::uint32_t kExponent = 0x7F800000, kOne = 0x00800000;
  constexpr int kLanes = 16;
  std::uint32_t over[kLanes] = {};
  const auto look = [&](int lane, float number) {
    over[lane] |= (std::bit_cast<std::uint32_t>(number) & kExponent) + kOne;
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) look(lane, numbers[i + lane]);
  for (; i < count; ++i) look(0, numbers[i]);
  std::uint32_t any = 0;
  for (const std::uint32_t bits : over) any |= bits;
  return any >> 31 == 0;
}

}  // namespace pipewright
