// gelu of tensors, for the layer gelu and for exported models: by our kernels
// (gelu_kernels.h) where the numbers are plain floats, else by ATen's.

#pragma once

#include <ATen/ATen.h>

#include <string_view>

namespace pipewright {

// `approximate` is "none" or "tanh".
at::Tensor gelu_of(const at::Tensor& input, std::string_view approximate);
at::Tensor gelu_gradient(const at::Tensor& gradient, const at::Tensor& input,
                         std::string_view approximate);

}  // namespace pipewright
