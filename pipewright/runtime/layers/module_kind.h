// Any torch::nn module as a kind of layer, through autograd.
//
//   add_module_kind({.name = "scale",
//                    .make = [](const Attributes&, const std::vector<Shape>&) {
//                      return wrapped(std::make_shared<ScaleModule>());
//                    }});
//
// From then on a model file may have {"kind": "scale"}, and all commands plan,
// measure and train it. Shapes and parameters are the module's own: it is run
// once when a model is created. See examples/own-layer.
//
// The module must be a function of its inputs and parameters, with samples in
// the first dimension of inputs and output. A module with buffers is refused;
// one that draws random numbers gets wrong gradients. Its backward runs its
// forward again, so that only inputs are kept in between.

#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/setting.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct WrappedModule {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const Tensors& inputs)> forward;
};

// A module whose forward takes one tensor.
template <class Module>
WrappedModule wrapped(std::shared_ptr<Module> module) {
  return {module, [module](const Tensors& inputs) {
            return module->forward(inputs[0]);
          }};
}

struct ModuleKind {
  std::string name = {};  // in model files
  std::vector<SettingRule> attributes = {};
  int num_inputs = 1;
  // A new module for inputs of these shapes (without samples).
  std::function<WrappedModule(const Attributes&, const std::vector<Shape>&)>
      make = {};
};

// To be called before any model is created. Fails with BadConfiguration if the
// name is taken.
Result<LayerKind> add_module_kind(ModuleKind kind);

}  // namespace pipewright
