// Initial values by kind; see initial_parameters.h.

#include "pipewright/runtime/training/initial_parameters.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>

#include "pipewright/base/check.h"
#include "pipewright/runtime/layers/custom_layer.h"
#include "pipewright/runtime/layers/exported_weights.h"
#include "pipewright/runtime/random_stream.h"

namespace pipewright {
namespace {

constexpr double kEmbeddingDeviation = 0.02;

struct FirstUse {
  LayerId id;
  const Layer* layer = nullptr;
  std::size_t place = 0;  // among the layer's parameters
};

FirstUse first_use(const Model& model, ParameterId parameter) {
  for (int l = 0; l < model.num_layers(); ++l) {
    const Layer& layer = model.layer(LayerId(l));
    const auto found =
        std::find(layer.parameters.begin(), layer.parameters.end(), parameter);
    if (found != layer.parameters.end())
      return {LayerId(l), &layer,
              std::size_t(found - layer.parameters.begin())};
  }
  PIPEWRIGHT_CHECK(false, model.parameter(parameter).name + " has no user");
}

// Inputs of one output of a linear or convolution weight.
std::int64_t fan_in(const Shape& weight) {
  return num_elements(weight) / weight.at(0);
}

double uniform_bound(const Model& model, const Layer& layer) {
  const std::size_t decisive = layer.kind == LayerKind::Lstm ? 1 : 0;
  const Shape& weight = model.parameter(layer.parameters.at(decisive)).shape;
  return 1 / std::sqrt(static_cast<double>(fan_in(weight)));
}

// The stream that a parameter is drawn from, and its first element in it: a
// part of a split layer has rows of the whole layer's.
struct Drawing {
  std::string name;
  std::uint64_t first = 0;
};

Drawing drawing_of(const Parameter& parameter, const Layer& layer) {
  const auto whole = layer.attributes.find("part_of");
  if (whole == layer.attributes.end() ||
      std::get<std::string>(whole->second).empty())
    return {parameter.name};
  const std::string role = parameter.name.substr(parameter.name.rfind('.') + 1);
  return {
      std::get<std::string>(whole->second) + "." + role,
      static_cast<std::uint64_t>(integer(layer.attributes, "first_output")) *
          static_cast<std::uint64_t>(fan_in(parameter.shape))};
}

at::Tensor drawn(const Model& model, const FirstUse& use, const Shape& shape,
                 const RandomStream& stream, std::uint64_t first) {
  const LayerKind kind = use.layer->kind;
  if (kind == LayerKind::BatchNorm || kind == LayerKind::LayerNorm)
    return use.place == 0 ? at::ones(shape, at::kDouble)
                          : at::zeros(shape, at::kDouble);
  at::Tensor values = at::empty(shape, at::kDouble);
  double* elements = values.data_ptr<double>();
  const bool is_normal =
      kind == LayerKind::Embedding || kind == LayerKind::Positional;
  const double bound = is_normal ? 0 : uniform_bound(model, *use.layer);
  // Each depends on its index alone, so that cores can share them out.
  const auto draw = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto index = first + static_cast<std::uint64_t>(i);
      elements[i] = is_normal ? kEmbeddingDeviation * stream.normal(index)
                              : bound * (2 * stream.uniform(index) - 1);
    }
  };
  at::parallel_for(0, values.numel(), std::int64_t{1} << 16, draw);
  return values;
}

}  // namespace

at::Tensor initial_parameter(const Model& model, ParameterId parameter,
                             std::uint64_t seed) {
  if (model.exported()) return exported_parameter(model, parameter);
  const Parameter& description = model.parameter(parameter);
  const FirstUse use = first_use(model, parameter);
  const Drawing drawing = drawing_of(description, *use.layer);
  const RandomStream stream(seed, drawing.name);
  if (const CustomLayer* custom = custom_layer(use.layer->kind))
    return custom->initial(describe(model, use.id), seed).at(use.place);
  return drawn(model, use, description.shape, stream, drawing.first)
      .to(scalar_type(description.type));
}

Tensors initial_parameters(const Model& model, std::uint64_t seed) {
  Tensors parameters;
  const auto weights = open_weights(model);  // once for all parameters
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    parameters.push_back(initial_parameter(model, ParameterId(i), seed));
  return parameters;
}

}  // namespace pipewright
