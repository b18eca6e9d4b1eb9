// See gelu_kernels.h. Works on blocks of one size, the last one padded: the
// result of an element does not depend on its position.

#include "pipewright/runtime/layers/gelu_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "pipewright/runtime/layers/vector_math.h"

namespace pipewright {
namespace {

constexpr std::int64_t kBlock = 256;
using Block = std::array<float, kBlock>;

// Polynomials are summed in pairs: that makes shorter chains of additions.
//
// The normal distribution: the share below x, and e^(-x^2/2). The share beyond
// |x| is e^(-x^2/2) / 2 times a function that is smooth in t = 1 / (1 + p |x|);
// its polynomial interpolates at Chebyshev points, 3e-8 off at most.
struct Normal {
  float below, bell;
};
[[gnu::always_inline]] inline Normal normal(float x) {
  constexpr float kP = 0.49F * 0.70710678F;
  const float size = std::abs(x);
  const float bell = exp_of_negative(-0.5F * x * x);
  const float t = 1 / (1 + kP * size);
  const float t2 = t * t, t4 = t2 * t2;
  const float a = (0.276419956591F + 0.277240612374F * t) +
                  (0.235190314166F + 0.223352893972F * t) * t2;
  const float b = (-0.0752504197355F + 0.371057848431F * t) +
                  (-0.545406573854F + 0.295881508471F * t) * t2;
  const float r = a + (b - 0.0584861675893F * t4) * t4;
  const float beyond = 0.5F * bell * t * r;
  return {x < 0 ? beyond : 1 - beyond, bell};
}

// 1 / (1 + e^(-2u)), which is (1 + tanh u) / 2
[[gnu::always_inline]] inline float half_of_tanh(float u) {
  const float e = exp_of_negative(-2 * std::abs(u));
  const float small = e / (1 + e);
  return u < 0 ? small : 1 - small;
}

constexpr float kSqrt2OverPi = 0.79788456F, kCubic = 0.044715F;
constexpr float kBell = 0.39894228F;  // 1 / sqrt(2 pi)

struct Erf {
  [[gnu::always_inline]] static float value(float x) {
    return x * normal(x).below;
  }
  [[gnu::always_inline]] static float slope(float x) {
    const Normal at = normal(x);
    return at.below + x * kBell * at.bell;
  }
};

struct Tanh {
  [[gnu::always_inline]] static float value(float x) {
    return x * half_of_tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
  }
  [[gnu::always_inline]] static float slope(float x) {
    const float share = half_of_tanh(kSqrt2OverPi * (x + kCubic * x * x * x));
    const float inner = kSqrt2OverPi * (1 + 3 * kCubic * x * x);
    return share + 2 * x * share * (1 - share) * inner;
  }
};

PIPEWRIGHT_VECTORS void erf_block(const float* x, float* y) {
  for (std::int64_t i = 0; i < kBlock; ++i) y[i] = Erf::value(x[i]);
}
PIPEWRIGHT_VECTORS void erf_slopes(const float* g, const float* x, float* y) {
  for (std::int64_t i = 0; i < kBlock; ++i) y[i] = g[i] * Erf::slope(x[i]);
}
PIPEWRIGHT_VECTORS void tanh_block(const float* x, float* y) {
  for (std::int64_t i = 0; i < kBlock; ++i) y[i] = Tanh::value(x[i]);
}
PIPEWRIGHT_VECTORS void tanh_slopes(const float* g, const float* x, float* y) {
  for (std::int64_t i = 0; i < kBlock; ++i) y[i] = g[i] * Tanh::slope(x[i]);
}

// The elements after the last whole block, padded.
Block last_of(const float* elements, std::int64_t count) {
  Block block{};
  std::copy(elements + count - count % kBlock, elements + count, block.begin());
  return block;
}

}  // namespace

void gelu(GeluForm form, const float* input, float* output,
          std::int64_t count) {
  const auto apply = form == GeluForm::Erf ? erf_block : tanh_block;
  const std::int64_t whole = count - count % kBlock;
  for (std::int64_t i = 0; i < whole; i += kBlock) apply(input + i, output + i);
  if (whole == count) return;
  Block block = last_of(input, count), result;
  apply(block.data(), result.data());
  std::copy_n(result.begin(), count - whole, output + whole);
}

void gelu_backward(GeluForm form, const float* gradient, const float* input,
                   float* output, std::int64_t count) {
  const auto apply = form == GeluForm::Erf ? erf_slopes : tanh_slopes;
  const std::int64_t whole = count - count % kBlock;
  for (std::int64_t i = 0; i < whole; i += kBlock)
    apply(gradient + i, input + i, output + i);
  if (whole == count) return;
  Block block = last_of(input, count), of_block = last_of(gradient, count);
  Block result;
  apply(of_block.data(), block.data(), result.data());
  std::copy_n(result.begin(), count - whole, output + whole);
}

}  // namespace pipewright
