// A layer with numbers to work on, and its derivatives.

#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/runtime/execution/network.h"
#include "tests/runtime/layers/layer_cases.h"
#include "tests/runtime/test_models.h"

namespace pipewright::testing {

// The layer behind one that makes its input need a gradient.
inline Model model_of(const Case& c, NumberType type) {
  Sketch sketch(c.name, type);
  std::vector<Source> sources;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    const bool is_index = c.index_bound > 0 && i + 1 == c.inputs.size();
    sources.push_back(is_index ? sketch.indices(name, c.inputs[i])
                               : sketch.linear(sketch.input(name, c.inputs[i]),
                                               c.inputs[i].back()));
  }
  sketch.add(c.kind, sources, c.attributes);
  return sketch.build();
}

inline at::Tensor random(const Shape& sizes, at::ScalarType type,
                         std::uint64_t key) {
  const RandomStream stream(11, "layer test " + std::to_string(key));
  at::Tensor tensor = at::empty(sizes, at::kDouble);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data_ptr<double>()[i] = stream.normal(static_cast<std::uint64_t>(i));
  return tensor.to(type);
}

// A layer with numbers to work on.
struct Bench {
  Bench(const Case& c, NumberType number_type)
      : network(model_of(c, number_type)),
        id(network.model.num_layers() - 1),
        function(*network.functions[id.index()]),
        type(scalar_type(number_type)) {
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      Shape sizes = {kSamples};
      sizes.insert(sizes.end(), c.inputs[i].begin(), c.inputs[i].end());
      const bool is_index = c.index_bound > 0 && i + 1 == c.inputs.size();
      inputs.push_back(random(sizes, is_index ? at::kDouble : type, i));
      if (is_index)
        inputs.back() =
            inputs.back().mul(100).abs().to(at::kLong).remainder(c.index_bound);
    }
    const auto& parameters = network.model.layer(id).parameters;
    for (std::size_t i = 0; i < parameters.size(); ++i)
      weights.push_back(
          random(network.model.parameter(parameters[i]).shape, type, 100 + i));
    statistics = function.initial_statistics();
  }

  // From now on its tensors are there.
  void move_to(const at::Device& device) {
    for (Tensors* tensors : {&inputs, &weights, &statistics})
      for (at::Tensor& tensor : *tensors) tensor = tensor.to(device);
  }

  Forwarded forward() {
    ForwardContext context{5, 2, 0, true,
                           statistics.empty() ? nullptr : &statistics};
    return function.forward(inputs, weights, context);
  }
  // Only what the layer is said to keep.
  KeptTensors kept(Forwarded forwarded) {
    const at::Tensor output = forwarded.output;
    return kept_value(
        network, id, private_value(network, id, inputs, forwarded),
        [&](LayerId layer) { return layer == id ? output : input_of(layer); });
  }
  at::Tensor input_of(LayerId layer) const {
    const auto& sources = network.model.layer(id).inputs;
    for (std::size_t i = 0; i < sources.size(); ++i)
      if (sources[i].layer == layer) return inputs[i];
    return {};
  }

  Network network;
  LayerId id;
  const LayerFunction& function;
  at::ScalarType type;
  Tensors inputs, weights, statistics;
};

// The projection whose derivatives are looked at, and their analytic values.
struct Derivatives {
  at::Tensor projection;
  Tensors inputs, weights;
};

inline Derivatives analytic(Bench& bench) {
  Forwarded forwarded = bench.forward();
  Derivatives result;
  result.projection = random(forwarded.output.sizes().vec(), bench.type, 999)
                          .to(forwarded.output.device());
  const KeptTensors kept = bench.kept(std::move(forwarded));
  Tensors carried;
  result.inputs = bench.function.backward_input(kept, bench.weights,
                                                result.projection, &carried);
  result.weights =
      bench.function.backward_weight(kept, result.projection, carried);
  return result;
}

inline double relative_distance(const at::Tensor& a, const at::Tensor& b) {
  const double scale = std::max(1e-3, b.norm().item<double>());
  return a.sub(b).norm().item<double>() / scale;
}

}  // namespace pipewright::testing
