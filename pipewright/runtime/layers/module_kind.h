// Any torch::nn module as a kind of layer, through autograd.
//
//   add_module_kind({.name = "scale",
//                    .make = [](const Attributes&, const std::vector<Shape>&) {
//                      return wrapped(std::make_shared<ScaleModule>());
//                    }});
//
// From then on a model file may say {"kind": "scale"}, and everything plans,
// measures and trains it. Shapes and parameters are the module's own: it is run
// once when a model is made. See examples/own-layer.
//
// What the module must be: a function of its inputs and parameters, with
// samples in the first dimension of inputs and output. One that draws random
// numbers or has buffers is refused or gives other gradients than it should.
// Its backward runs its forward again, so that nothing but inputs is kept in
// between.

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

// Before any model is made. Fails with BadConfiguration where the name is
// taken.
Result<LayerKind> add_module_kind(ModuleKind kind);

}  // namespace pipewright
