// What a layer's function is made from: the layer (its attributes complete,
// with defaults; see model/kind_rule.h) and the shapes around it.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct LayerDescription {
  LayerId id;
  const Model* model = nullptr;  // an exported layer needs it to live on
  const Layer* layer = nullptr;
  std::vector<Shape> input_shapes;  // without the samples
  std::vector<bool> wanted;         // by input: whether it needs a gradient
  std::vector<Shape> parameter_shapes;

  const Attributes& attributes() const { return layer->attributes; }
  bool wants_gradient(std::size_t input) const { return wanted[input]; }
};

LayerDescription describe(const Model& model, LayerId layer);

// The built-in kinds, one file per family.
using LayerMaker = std::unique_ptr<const LayerFunction>(LayerDescription);
LayerMaker make_linear, make_conv2d, make_batch_norm, make_layer_norm;
LayerMaker make_relu, make_gelu, make_tanh, make_sigmoid, make_softmax;
LayerMaker make_dropout, make_max_pool, make_avg_pool, make_adaptive_avg_pool;
LayerMaker make_flatten, make_add, make_concat, make_select;
LayerMaker make_embedding, make_positional;
LayerMaker make_attention, make_lstm, make_cross_entropy, make_mse;
LayerMaker make_linear_cross_entropy;
LayerMaker make_exported;

}  // namespace pipewright
