// Helpers for loops over floats that the compiler turns into vector
// instructions; CMakeLists.txt compiles the files that include it for that.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

// The widest vectors that the processor has are chosen when the program starts.
#if defined(__x86_64__)
#define PIPEWRIGHT_VECTORS \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PIPEWRIGHT_VECTORS
#endif

namespace pipewright {

// e^x for x <= 0: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2].
[[gnu::always_inline]] inline float exp_of_negative(float x) {
  constexpr float kLog2E = 1.44269504F, kRounding = 12582912.F;  // 1.5 * 2^23
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  x = std::max(x, -87.F);
  const float shifted = x * kLog2E + kRounding;
  const float n = shifted - kRounding;
  const float r = x - n * kLn2High - n * kLn2Low;
  const float r2 = r * r;
  const float low = (1 + r) + (0.5F + 1.F / 6 * r) * r2;
  const float high = (1.F / 24 + 1.F / 120 * r) + (1.F / 720 * r2);
  const float p = low + high * (r2 * r2);
  const auto exponent = std::bit_cast<std::int32_t>(shifted) << 23;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(p) + exponent);
}

}  // namespace pipewright
