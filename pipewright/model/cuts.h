// What crosses a cut, and what backward keeps: the bytes that decide where a
// model is cut. Both count storages, so a view costs nothing and a tensor that
// several layers use or keep counts once.
//
// An order is any topological order of all layers; position p lies before its
// p-th layer, so there are num_layers + 1 positions, of which nothing crosses
// the first and the last.

#pragma once

#include <span>
#include <vector>

#include "pipewright/model/model.h"

namespace pipewright {

struct Crossing {
  Size forward;   // outputs made before the position and used at or after it
  Size backward;  // gradients of those of them that need one

  auto operator<=>(const Crossing&) const = default;
};

// The layer whose output's storage each layer's output lies in: itself, or for
// a view the layer it is a view of.
std::vector<LayerId> storages(const Model& model);

// The layers' own order.
std::vector<LayerId> model_order(const Model& model);

// One entry a position. An order that is none is a bug of the caller.
std::vector<Crossing> cut_sizes(const Model& model,
                                std::span<const LayerId> order);
std::vector<Crossing> cut_sizes(const Model& model);

// The storages that cross one position, by the layer that owns each, ascending.
std::vector<LayerId> crossing_storages(const Model& model,
                                       std::span<const LayerId> order,
                                       int position);

// What backward of these layers keeps, each storage once. Model inputs that are
// kept count too.
Size kept_size(const Model& model, std::span<const LayerId> layers);

// Per layer what it adds to that of the layers listed before it; sums to
// kept_size().
std::vector<Size> added_kept_sizes(const Model& model,
                                   std::span<const LayerId> layers);

}  // namespace pipewright
