// Lists of tensors, as layers, messages and stores pass them.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "pipewright/model/layer.h"

namespace pipewright {

// A layer reads, makes and keeps few tensors. Up to 8 are stored in the list
// itself, so that making and passing a list allocates nothing.
using Tensors = c10::SmallVector<at::Tensor, 8>;

// The tensors of a message: one list per value of its transfer.
using Values = std::vector<Tensors>;

// The sizes of a tensor of so many samples; samples are the first dimension.
inline at::DimVector sizes_of(std::int64_t samples, const Shape& shape) {
  at::DimVector sizes = {samples};
  sizes.append(shape.begin(), shape.end());
  return sizes;
}

}  // namespace pipewright
