#include "pipewright/model/cost.h"

#include "pipewright/model/exported/exported_model.h"
#include "pipewright/model/model.h"

namespace pipewright {
namespace {

Bytes tensor_bytes(const Shape& shape, NumberType type) {
  return num_elements(shape) * size_of(type);
}

bool any_input_needs_gradient(const Model& model, const Layer& layer) {
  for (const Source& source : layer.inputs)
    if (model.needs_gradient(source)) return true;
  return false;
}

}  // namespace

LayerCost full_cost(LayerKind kind, const LayerFacts& facts) {
  LayerCost cost;
  cost.output.per_sample = tensor_bytes(facts.output.shape, facts.output.type);
  for (const Shape& parameter : facts.parameters)
    cost.parameters += tensor_bytes(parameter, facts.output.type);
  cost.memory_traffic = {cost.parameters, cost.output.per_sample};
  for (const TensorForm& input : facts.inputs)
    cost.memory_traffic.per_sample += tensor_bytes(input.shape, input.type);
  cost.keeps_input.assign(facts.inputs.size(), false);
  kind_rule(kind).cost(facts, cost);
  return cost;
}

LayerCost layer_cost(const Model& model, LayerId id) {
  if (model.exported()) return exported_cost(model, id);
  const Layer& layer = model.layer(id);
  std::vector<TensorForm> inputs;
  for (const Source& source : layer.inputs)
    inputs.push_back({shape_of(model, source), type_of(model, source)});
  std::vector<Shape> parameters;
  for (ParameterId parameter : layer.parameters)
    parameters.push_back(model.parameter(parameter).shape);
  const bool input_gradient = any_input_needs_gradient(model, layer);
  LayerCost cost = full_cost(layer.kind, {layer.attributes,
                                          inputs,
                                          {layer.output, layer.output_type},
                                          std::move(parameters),
                                          input_gradient});
  if (layer.inputs[0].is_model_input()) cost.output_is_view = false;
  if (!input_gradient) cost.backward_input = Flops(0);
  if (!model.needs_gradient(id)) {
    cost.keeps_input.assign(inputs.size(), false);
    cost.keeps_output = false;
    cost.keeps_private = {};
  }
  return cost;
}

}  // namespace pipewright
