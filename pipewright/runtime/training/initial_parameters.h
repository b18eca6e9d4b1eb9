// Parameters before the first step: drawn from a random stream keyed by (seed,
// parameter name), so that they do not depend on cuts, workers or order. Those
// of an exported model are in its file.

#pragma once

#include <cstdint>

#include "pipewright/model/model.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

// The first layer that uses the parameter decides how:
//   linear, conv2d   uniform within 1 / sqrt(inputs of one output)
//   lstm             uniform within 1 / sqrt(hidden)
//   norms            ones for the gain, zeros for the shift
//   embedding, positional   normal, deviation 0.02
// A part of a split layer (split_layers.h) has what the whole would have there.
at::Tensor initial_parameter(const Model& model, ParameterId parameter,
                             std::uint64_t seed);
Tensors initial_parameters(const Model& model, std::uint64_t seed);

}  // namespace pipewright
