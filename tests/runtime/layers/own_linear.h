// A linear layer as a torch::nn module of a user's own, and models of it.

#pragma once

#include "pipewright/model/kinds.h"
#include "pipewright/runtime/layers/module_kind.h"
#include "tests/runtime/test_models.h"

namespace pipewright::testing {

struct OwnLinear : torch::nn::Module {
  OwnLinear(std::int64_t in, std::int64_t out)
      : weight(register_parameter("weight", at::randn({out, in}) * 0.1)),
        bias(register_parameter("bias", at::zeros({out}))) {}
  at::Tensor forward(const at::Tensor& x) {
    return at::linear(x, weight, bias);
  }
  at::Tensor weight, bias;
};

// Once for all cases.
inline LayerKind own_linear() {
  static const LayerKind kind =
      add_module_kind(
          {.name = "own_linear",
           .attributes = {{.name = "out_features", .min = 1}},
           .make =
               [](const Attributes& attributes,
                  const std::vector<Shape>& inputs) {
                 return wrapped(std::make_shared<OwnLinear>(
                     inputs[0].back(), integer(attributes, "out_features")));
               }})
          .value();
  return kind;
}

inline Model perceptron(LayerKind linear) {
  Sketch sketch("perceptron");
  Source x = sketch.input("image", {6});
  const Source target = sketch.indices("target", {});
  for (int i = 0; i < 3; ++i) {
    x = sketch.add(linear, {x}, {{"out_features", std::int64_t{8}}});
    x = sketch.add(LayerKind::Relu, {x});
  }
  x = sketch.add(linear, {x}, {{"out_features", std::int64_t{4}}});
  sketch.add(LayerKind::CrossEntropy, {x, target});
  return sketch.build();
}

}  // namespace pipewright::testing
