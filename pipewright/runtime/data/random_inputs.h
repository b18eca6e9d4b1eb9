// Random tensors that a layer or a model accepts: numbers, or indices within
// bounds. Each depends on its random stream alone.

#pragma once

#include <cstdint>

#include "pipewright/model/model.h"
#include "pipewright/runtime/layers/layer_function.h"
#include "pipewright/runtime/random_stream.h"

namespace pipewright {

// Indices in a model's input must be below this: the smallest number of entries
// or classes among the layers that read it.
std::int64_t index_bound(const Model& model, int input);

// Normal numbers, or indices below `bound` for an integer type.
at::Tensor random_tensor(const Shape& sizes, NumberType type,
                         std::int64_t bound, const RandomStream& stream);

// `samples` samples of what a layer reads from `source`.
at::Tensor random_samples(const Model& model, const Source& source,
                          std::int64_t samples, const RandomStream& stream);

}  // namespace pipewright
