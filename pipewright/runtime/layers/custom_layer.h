// Kinds of layers that are not built in: their functions and initial
// parameters. The rule of the kind (attributes, shapes, cost) is added with
// add_kind().

#pragma once

#include <functional>
#include <memory>

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {

struct CustomLayer {
  std::function<std::unique_ptr<const LayerFunction>(LayerDescription)> make;
  // Parameters before the first step, in the kind's order; the same for the
  // same layer and seed.
  std::function<Tensors(const LayerDescription&, std::uint64_t seed)> initial;
};

// To be called before any model is created; not on several threads.
void add_custom_layer(LayerKind kind, CustomLayer layer);

// Null for a kind that is built in.
const CustomLayer* custom_layer(LayerKind kind);

}  // namespace pipewright
