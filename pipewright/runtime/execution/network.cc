// The layers of a model, ready to compute; see network.h.

#include "pipewright/runtime/execution/network.h"

#include "pipewright/model/exported/exported_model.h"
#include "pipewright/runtime/layers/layer_makers.h"

namespace pipewright {

Network::Network(Model m)
    : model(std::move(m)),
      functions(layer_functions(model)),
      is_used(model.num_layers(), false) {
  for (int i = 0; i < model.num_layers(); ++i) {
    costs.push_back(layer_cost(model, LayerId(i)));
    for (const Source& source : model.layer(LayerId(i)).inputs)
      if (!source.is_model_input()) is_used[source.layer.index()] = true;
    const Source& first = model.layer(LayerId(i)).inputs.at(0);
    const bool is_view = costs.back().output_is_view && !first.is_model_input();
    storage.push_back(is_view ? storage[first.layer.index()] : LayerId(i));
  }
}

bool Network::has_private(LayerId id) const {
  const LayerCost& cost = costs[id.index()];
  if (cost.keeps_private.at(1) > Bytes(0)) return true;
  if (model.exported() && model.needs_gradient(id) &&
      model.exported()->functions_of(id).num_private > 0)
    return true;  // of no bytes
  const Layer& layer = model.layer(id);
  for (std::size_t i = 0; i < layer.inputs.size(); ++i)
    if (cost.keeps_input[i] && layer.inputs[i].is_model_input()) return true;
  return false;
}

Tensors private_value(const Network& network, LayerId id, const Tensors& inputs,
                      Forwarded& forwarded) {
  const Layer& layer = network.model.layer(id);
  Tensors value = std::move(forwarded.kept_private);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (network.costs[id.index()].keeps_input[i] &&
        layer.inputs[i].is_model_input())
      value.push_back(inputs[i]);
  return value;
}

KeptTensors kept_value(const Network& network, LayerId id, Tensors value,
                       const std::function<at::Tensor(LayerId)>& output) {
  const Layer& layer = network.model.layer(id);
  const LayerCost& cost = network.costs[id.index()];
  KeptTensors kept;
  kept.inputs.resize(layer.inputs.size());
  for (std::size_t i = layer.inputs.size(); i-- > 0;) {
    if (!cost.keeps_input[i]) continue;
    if (layer.inputs[i].is_model_input()) {
      kept.inputs[i] = std::move(value.back());
      value.pop_back();
    } else {
      kept.inputs[i] = output(layer.inputs[i].layer);
    }
  }
  if (cost.keeps_output) kept.output = output(id);
  kept.kept_private = std::move(value);
  return kept;
}

at::Tensor output_in(const Network& network, LayerId id,
                     const at::Tensor& storage) {
  if (network.storage[id.index()] == id) return storage;
  return storage.view(
      sizes_of(storage.size(0), network.model.layer(id).output));
}

}  // namespace pipewright
