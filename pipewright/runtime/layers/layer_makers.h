// From a model's layers to their functions: built in, or added with
// add_custom_layer().

#pragma once

#include <memory>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

// The function of one layer. Throws Bug for a kind that has none.
std::unique_ptr<const LayerFunction> layer_function(const Model& model,
                                                    LayerId layer);
// Of all layers, by LayerId.
std::vector<std::unique_ptr<const LayerFunction>> layer_functions(
    const Model& model);

}  // namespace pipewright
