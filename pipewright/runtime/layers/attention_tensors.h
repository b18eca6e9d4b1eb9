// Query, key and value of attention, however its inputs are packed: one input
// holds all three; of two the second holds key and value.

#pragma once

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {

// Samples x positions x features.
struct AttentionTensors {
  at::Tensor query, key, value;
};

// Views.
AttentionTensors unpacked(const Tensors& inputs);
// The gradients of the inputs; undefined where none is wanted.
Tensors packed(const AttentionTensors& gradients,
               const LayerDescription& description);

// Queries x keys: true where a key is later than the query, which causal
// attention leaves out.
at::Tensor future_positions(const LayerDescription& description);

// Keeps its inputs, its output and a number for each row of the scores, from
// which backward makes the scores again.
LayerMaker make_flash_attention;

}  // namespace pipewright
