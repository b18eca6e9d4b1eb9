#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {

LayerDescription describe(const Model& model, LayerId id) {
  LayerDescription description{id, &model, &model.layer(id), {}, {}, {}};
  for (const Source& source : model.layer(id).inputs) {
    const bool is_model_input = source.is_model_input();
    description.wanted.push_back(model.needs_gradient(source));
    description.input_shapes.push_back(is_model_input
                                           ? model.inputs()[source.input].shape
                                           : model.layer(source.layer).output);
  }
  for (const ParameterId parameter : model.layer(id).parameters)
    description.parameter_shapes.push_back(model.parameter(parameter).shape);
  return description;
}

}  // namespace pipewright
