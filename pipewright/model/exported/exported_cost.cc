// What a layer of an exported model costs, and when two models are equal, which
// may be exported ones; see exported_model.h.

#include "pipewright/model/exported/exported_model.h"

namespace pipewright {
namespace {

bool has_wanted_input(const Model& model, const Layer& layer) {
  for (const Source& source : layer.inputs)
    if (model.needs_gradient(source)) return true;
  return false;
}

}  // namespace

bool Model::operator==(const Model& other) const {
  const bool are_exported = exported_ && other.exported_;
  return name_ == other.name_ && inputs_ == other.inputs_ &&
         layers_ == other.layers_ && parameters_ == other.parameters_ &&
         !exported_ == !other.exported_ &&
         (!are_exported || exported_->text == other.exported_->text);
}

LayerCost exported_cost(const Model& model, LayerId id) {
  const Layer& layer = model.layer(id);
  const LayerFunctions& functions = model.exported()->functions_of(id);
  LayerCost cost;
  cost.forward = functions.forward_flops;
  if (has_wanted_input(model, layer))
    cost.backward_input = functions.backward_input_flops;
  if (!layer.parameters.empty())
    cost.backward_weight = functions.backward_weight_flops;
  cost.memory_traffic = functions.traffic_bytes;
  const Bytes output = num_elements(layer.output) * size_of(layer.output_type);
  const bool is_fixed = model.exported()->layers[id.index()].is_fixed;
  cost.output = is_fixed ? Size{output, Bytes(0)} : Size{Bytes(0), output};
  for (const ParameterId parameter : layer.parameters)
    cost.parameters += num_elements(model.parameter(parameter).shape) *
                       size_of(model.parameter(parameter).type);
  // Buffers that a forward updates are statistics of its samples.
  cost.mixes_samples = functions.mixes_samples || functions.num_updates > 0;
  cost.keeps_input.assign(layer.inputs.size(), false);
  if (!model.needs_gradient(id)) return cost;
  for (const int input : functions.keeps_inputs)
    cost.keeps_input[static_cast<std::size_t>(input)] = true;
  cost.keeps_output = functions.keeps_output;
  cost.keeps_private = functions.private_bytes;
  cost.carried = functions.carried_bytes;
  return cost;
}

}  // namespace pipewright
