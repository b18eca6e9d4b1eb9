// The cost of a layer by its kind's rule, as if every input needed a gradient.
// For the builder; everything else calls layer_cost() (model.h).

#pragma once

#include "pipewright/model/kinds.h"

namespace pipewright {

LayerCost full_cost(LayerKind kind, const LayerFacts& facts);

}  // namespace pipewright
