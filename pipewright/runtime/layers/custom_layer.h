// Kinds of layers that are not built in: how they compute and start. The rule
// of the kind itself (attributes, shapes, cost) is added with add_kind().

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

// Before any model is made; not from several threads.
void add_custom_layer(LayerKind kind, CustomLayer layer);

// Null for a kind that is built in.
const CustomLayer* custom_layer(LayerKind kind);

}  // namespace pipewright
