// gelu and its derivative over plain floats, for
// layers/activation_functions.cc. ATen's spend as long on one such layer as on
// half a matrix product, one element's erf, exp or tanh after the other on some
// processors; these are loops that a compiler turns into vector instructions.

#pragma once

#include <cstdint>

namespace pipewright {

enum class GeluForm {
  Erf,
  Tanh
};

// output = gelu(input); within 4e-7 of it, relative to the larger of it and 0.1
void gelu(GeluForm form, const float* input, float* output, std::int64_t count);

// output = gradient * gelu'(input)
void gelu_backward(GeluForm form, const float* gradient, const float* input,
                   float* output, std::int64_t count);

}  // namespace pipewright
