// Which elements dropout keeps. Element i depends on (seed, microbatch, layer,
// i) alone, not on workers, order, a split of the microbatch or the device.

#pragma once

#include "pipewright/base/ids.h"
#include "pipewright/runtime/layers/layer_function.h"
#include "pipewright/runtime/random_stream.h"

namespace pipewright {

// Of the shape and on the device of `like`, whose first dimension is samples:
// false with probability `rate`.
at::Tensor dropout_mask(const at::Tensor& like, LayerId layer, double rate,
                        const ForwardContext& context);

// The same for elements `first` and after of a stream. Where the device knows
// the number of the microbatch, by a kernel that reads it.
struct MaskStream {
  LayerStream name;
  std::int64_t microbatch = 0;
  at::Tensor number = {};  // the same on the device, or undefined
  std::int64_t first = 0;
  bool* draws = nullptr;  // as in ForwardContext
};
at::Tensor dropout_mask(const at::Tensor& like, const MaskStream& stream,
                        double rate);

// For elements `first` and after of a stream, by a loop over memory of the
// host, and by tensor operations on any device. Both give the same.
at::Tensor mask_by_loop(const RandomStream& stream, at::IntArrayRef sizes,
                        std::int64_t first, double rate);
at::Tensor mask_by_tensors(const RandomStream& stream, at::IntArrayRef sizes,
                           std::int64_t first, double rate,
                           const at::Device& device);

}  // namespace pipewright
