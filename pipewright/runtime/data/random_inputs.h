// Random tensors that a layer or a model accepts: numbers where numbers go,
// indices within bounds where indices go. Each depends on its key alone.

#pragma once

#include <cstdint>

#include "pipewright/model/model.h"
#include "pipewright/runtime/layers/layer_function.h"
#include "pipewright/runtime/layers/random_stream.h"

namespace pipewright {

// Indices of a model input lie below this: entries of the table or classes it
// is used for, the smallest of them.
std::int64_t index_bound(const Model& model, int input);

// Normal numbers, or indices below `bound` for an integer type.
at::Tensor random_tensor(const Shape& sizes, NumberType type,
                         std::int64_t bound, const RandomStream& stream);

// `samples` of what a layer reads from there.
at::Tensor random_samples(const Model& model, const Source& source,
                          std::int64_t samples, const RandomStream& stream);

}  // namespace pipewright
