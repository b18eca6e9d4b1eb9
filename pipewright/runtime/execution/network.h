// A model made ready to compute: what every worker looks up per layer, made
// once and shared by all. No tensor of a run is in it.

#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct Network {
  explicit Network(Model model);

  const Model model;
  std::vector<std::unique_ptr<const LayerFunction>> functions;  // by LayerId
  std::vector<LayerCost> costs;                                 // by LayerId
  std::vector<bool> is_used;  // by LayerId: another layer reads its output
  // By LayerId: the layer whose activation holds its output; another one where
  // the output is a view.
  std::vector<LayerId> storage;

  // Model inputs that a layer keeps travel with its private tensors, after
  // them.
  bool has_private(LayerId layer) const;
};

// All that goes into a layer's private value: its own tensors, then the model
// inputs it keeps.
Tensors private_value(const Network& network, LayerId layer,
                      const Tensors& inputs, Forwarded& forwarded);

// A layer's output out of the activation that holds it.
at::Tensor output_in(const Network& network, LayerId layer,
                     const at::Tensor& storage);

// What backward looks at, put together again. `output` answers with that of a
// layer.
KeptTensors kept_value(const Network& network, LayerId layer,
                       Tensors private_value,
                       const std::function<at::Tensor(LayerId)>& output);

}  // namespace pipewright
