// The bytes that cross a cut, and the bytes that are kept for backward. Both
// count storages: a view costs nothing, and a tensor that several layers use or
// keep counts once.
//
// An order is a topological order of all layers. Position p is before its
// p-th layer, so there are num_layers + 1 positions; nothing crosses the first
// and the last one.

#pragma once

#include <span>
#include <vector>

#include "pipewright/model/model.h"

namespace pipewright {

struct Crossing {
  Size forward;   // outputs created before the position and used at or after it
  Size backward;  // their gradients, if they need one

  auto operator<=>(const Crossing&) const = default;
};

// For each layer, the layer that owns the storage of its output: itself, or for
// a view the layer that it is a view of.
std::vector<LayerId> storages(const Model& model);

// The layers' own order.
std::vector<LayerId> model_order(const Model& model);

// One entry per position. The order must be topological (checked).
std::vector<Crossing> cut_sizes(const Model& model,
                                std::span<const LayerId> order);
std::vector<Crossing> cut_sizes(const Model& model);

// Per layer, what it keeps for backward in addition to the layers listed before
// it: each storage counts once. Model inputs that are kept count as well.
std::vector<Size> added_kept_sizes(const Model& model,
                                   std::span<const LayerId> layers);

}  // namespace pipewright
