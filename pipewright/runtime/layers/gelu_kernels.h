// gelu and its derivative over plain floats, for layers/gelu_tensors.cc. On
// some processors ATen's kernels compute one element's erf, exp or tanh after
// the other, and take as long as half a matrix product; these are loops that a
// compiler turns into vector instructions.

#pragma once

#include <cstdint>

namespace pipewright {

enum class GeluForm {
  Erf,
  Tanh
};

// output = gelu(input); error below 4e-7, relative to the larger of it and 0.1
void gelu(GeluForm form, const float* input, float* output, std::int64_t count);

// output = gradient * gelu'(input)
void gelu_backward(GeluForm form, const float* gradient, const float* input,
                   float* output, std::int64_t count);

}  // namespace pipewright
