// The cost of a layer from its kind's rule, before it is known which inputs
// need a gradient. layer_cost() (model.h) is what everybody else asks.

#pragma once

#include "pipewright/model/kinds.h"

namespace pipewright {

LayerCost full_cost(LayerKind kind, const LayerFacts& facts);

}  // namespace pipewright
