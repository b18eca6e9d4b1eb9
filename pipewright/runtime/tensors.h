// Lists of tensors, and the sizes of one: what layers, messages and stores hand
// to each other.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "pipewright/model/layer.h"

namespace pipewright {

// What a layer takes, gives or keeps is few tensors, and those lie in the list
// itself: to make or to hand over a list takes no memory. A longer one is as
// any vector.
using Tensors = c10::SmallVector<at::Tensor, 8>;

// What a message carries: one list per value of its transfer.
using Values = std::vector<Tensors>;

// Samples come first.
inline at::DimVector sizes_of(std::int64_t samples, const Shape& shape) {
  at::DimVector sizes = {samples};
  sizes.append(shape.begin(), shape.end());
  return sizes;
}

}  // namespace pipewright
