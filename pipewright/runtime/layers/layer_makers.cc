#include "pipewright/runtime/layers/layer_makers.h"

#include <ATen/Config.h>
#include <ATen/Context.h>

#include "pipewright/base/check.h"
#include "pipewright/model/kinds.h"
#include "pipewright/runtime/layers/custom_layer.h"
#include "pipewright/runtime/layers/exported_weights.h"
#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

// Null for a kind that is not built in.
LayerMaker* maker(LayerKind kind) {
  switch (kind) {
    case LayerKind::Linear:
      return make_linear;
    case LayerKind::Conv2d:
      return make_conv2d;
    case LayerKind::BatchNorm:
      return make_batch_norm;
    case LayerKind::LayerNorm:
      return make_layer_norm;
    case LayerKind::Relu:
      return make_relu;
    case LayerKind::Gelu:
      return make_gelu;
    case LayerKind::Tanh:
      return make_tanh;
    case LayerKind::Sigmoid:
      return make_sigmoid;
    case LayerKind::Softmax:
      return make_softmax;
    case LayerKind::Dropout:
      return make_dropout;
    case LayerKind::MaxPool:
      return make_max_pool;
    case LayerKind::AvgPool:
      return make_avg_pool;
    case LayerKind::AdaptiveAvgPool:
      return make_adaptive_avg_pool;
    case LayerKind::Flatten:
      return make_flatten;
    case LayerKind::Add:
      return make_add;
    case LayerKind::Concat:
      return make_concat;
    case LayerKind::Select:
      return make_select;
    case LayerKind::Embedding:
      return make_embedding;
    case LayerKind::Positional:
      return make_positional;
    case LayerKind::Attention:
      return make_attention;
    case LayerKind::Lstm:
      return make_lstm;
    case LayerKind::CrossEntropy:
      return make_cross_entropy;
    case LayerKind::LinearCrossEntropy:
      return make_linear_cross_entropy;
    case LayerKind::Mse:
      return make_mse;
    case LayerKind::Exported:
      return make_exported;
  }
  return nullptr;
}

// On Arm, oneDNN runs products and convolutions with the Compute Library, which
// uses threads of its own and so takes cores from other workers; its gelu and
// weight gradients are several times slower than ATen's.
void switch_off_compute_library() {
#if AT_MKLDNN_ACL_ENABLED()
  at::globalContext().setUserEnabledMkldnn(false);
#endif
}

}  // namespace

std::unique_ptr<const LayerFunction> layer_function(const Model& model,
                                                    LayerId layer) {
  switch_off_compute_library();
  const LayerKind kind = model.layer(layer).kind;
  if (const CustomLayer* custom = custom_layer(kind))
    return custom->make(describe(model, layer));
  LayerMaker* const make = maker(kind);
  PIPEWRIGHT_CHECK(make, to_text(kind) + ": a kind without a function");
  return make(describe(model, layer));
}

std::vector<std::unique_ptr<const LayerFunction>> layer_functions(
    const Model& model) {
  std::vector<std::unique_ptr<const LayerFunction>> functions;
  const auto weights = open_weights(model);  // once for all layers
  for (int i = 0; i < model.num_layers(); ++i)
    functions.push_back(layer_function(model, LayerId(i)));
  return functions;
}

}  // namespace pipewright
