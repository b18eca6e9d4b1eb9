// Lists of tensors, as layers, messages and stores pass them, and their types.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "pipewright/model/layer.h"

namespace pipewright {

// A layer reads, makes and keeps few tensors. Up to 8 are stored in the list
// itself, so that making and passing a list allocates nothing.
using Tensors = c10::SmallVector<at::Tensor, 8>;

// A list of one tensor. Braces would copy it.
inline Tensors list_of(at::Tensor tensor) {
  Tensors list;
  list.push_back(std::move(tensor));
  return list;
}

// The tensors of a message: one list per value of its transfer.
using Values = std::vector<Tensors>;

// The sizes of a tensor of so many samples; samples are the first dimension.
inline at::DimVector sizes_of(std::int64_t samples, const Shape& shape) {
  at::DimVector sizes = {samples};
  sizes.append(shape.begin(), shape.end());
  return sizes;
}

// The state of an optimizer is float32 for weights of two bytes, too.
inline bool has_two_bytes(at::ScalarType type) {
  return type == at::kBFloat16 || type == at::kHalf;
}
inline at::ScalarType state_type(at::ScalarType weights) {
  return has_two_bytes(weights) ? at::kFloat : weights;
}

}  // namespace pipewright
