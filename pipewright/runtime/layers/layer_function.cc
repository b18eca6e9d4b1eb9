// Which maker a kind has, and what the makers are told.

#include "pipewright/runtime/layers/layer_function.h"

#include <ATen/Config.h>
#include <ATen/Context.h>

#include "pipewright/base/check.h"
#include "pipewright/model/kinds.h"
#include "pipewright/runtime/layers/custom_layer.h"
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
    case LayerKind::Mse:
      return make_mse;
  }
  return nullptr;
}

}  // namespace

Tensors LayerFunction::backward_weight(const KeptTensors&, const at::Tensor&,
                                       const Tensors&) const {
  return {};
}

void LayerFunction::add_backward_weight(const KeptTensors& kept,
                                        const at::Tensor& gradient,
                                        const Tensors& carried,
                                        Tensors& sums) const {
  const Tensors parts = backward_weight(kept, gradient, carried);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add_(parts[i]);
}

LayerDescription describe(const Model& model, LayerId id) {
  LayerDescription description{id, &model.layer(id), {}, {}, {}};
  for (const Source& source : model.layer(id).inputs) {
    const bool is_model_input = source.is_model_input();
    description.wanted.push_back(model.needs_gradient(source));
    description.input_shapes.push_back(
        is_model_input
            ? model.inputs()[static_cast<std::size_t>(source.input)].shape
            : model.layer(source.layer).output);
  }
  for (const ParameterId parameter : model.layer(id).parameters)
    description.parameter_shapes.push_back(model.parameter(parameter).shape);
  return description;
}

namespace {

// On Arm, oneDNN hands products and convolutions to the Compute Library, which
// runs them on threads of its own whatever a worker's thread asked for, and so
// takes them from the other workers; its gelu and weight gradients are several
// times slower than ATen's.
void keep_to_one_thread() {
#if AT_MKLDNN_ACL_ENABLED()
  at::globalContext().setUserEnabledMkldnn(false);
#endif
}

}  // namespace

std::unique_ptr<const LayerFunction> layer_function(const Model& model,
                                                    LayerId layer) {
  keep_to_one_thread();
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
  for (int i = 0; i < model.num_layers(); ++i)
    functions.push_back(layer_function(model, LayerId(i)));
  return functions;
}

at::ScalarType scalar_type(NumberType type) {
  switch (type) {
    case NumberType::Float64:
      return at::kDouble;
    case NumberType::Float32:
      return at::kFloat;
    case NumberType::Float16:
      return at::kHalf;
    case NumberType::BFloat16:
      return at::kBFloat16;
    case NumberType::Int64:
      return at::kLong;
    case NumberType::Int32:
      return at::kInt;
    case NumberType::UInt8:
      return at::kByte;
  }
  PIPEWRIGHT_CHECK(false, "a number type without a scalar type");
}

}  // namespace pipewright
