#include "pipewright/model/model.h"

namespace pipewright {

std::int64_t Model::num_parameters() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters_)
    total += num_elements(parameter.shape);
  return total;
}

const Shape& shape_of(const Model& model, const Source& source) {
  if (source.is_model_input()) return model.inputs().at(source.input).shape;
  return model.layers().at(source.layer.index()).output;
}

NumberType type_of(const Model& model, const Source& source) {
  if (source.is_model_input()) return model.inputs().at(source.input).type;
  return model.layers().at(source.layer.index()).output_type;
}

}  // namespace pipewright
