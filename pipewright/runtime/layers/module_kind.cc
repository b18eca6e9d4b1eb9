#include "pipewright/runtime/layers/module_kind.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <mutex>

#include "pipewright/model/kinds.h"
#include "pipewright/runtime/layers/custom_layer.h"
#include "pipewright/runtime/random_stream.h"

namespace pipewright {
namespace {

using Kind = std::shared_ptr<const ModuleKind>;

WrappedModule make_module(const ModuleKind& kind, const Attributes& attributes,
                          const std::vector<Shape>& shapes,
                          at::ScalarType type) {
  const c10::InferenceMode normal(false);  // its parameters need gradients
  WrappedModule wrapped = kind.make(attributes, shapes);
  wrapped.module->to(type);
  return wrapped;
}

// To copies of the weights, on their device: autograd keeps no tensors of
// inference mode. In new memory, as kernels of the worker that had the module
// before may still read theirs.
void set_parameters(const WrappedModule& module, const Tensors& weights) {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard guard;
  std::size_t i = 0;
  for (at::Tensor& parameter : module.module->parameters())
    parameter.set_data(weights[i++].clone());
}

// Shapes and parameters, found by running the module on two samples of zeros.
Result<LayerForm> module_form(const ModuleKind& kind,
                              const Attributes& attributes,
                              const std::vector<TensorForm>& inputs) {
  constexpr std::int64_t kSamples = 2;
  const at::NoGradGuard guard;
  std::vector<Shape> shapes;
  Tensors zeros;
  for (const TensorForm& input : inputs) {
    shapes.push_back(input.shape);
    zeros.push_back(
        at::zeros(sizes_of(kSamples, input.shape), scalar_type(input.type)));
  }
  try {
    const WrappedModule module =
        make_module(kind, attributes, shapes, zeros.at(0).scalar_type());
    if (!module.module->buffers().empty())
      return malformed("is a module with buffers, which would not be saved");
    const at::Tensor output = module.forward(zeros);
    if (output.dim() < 1 || output.size(0) != kSamples)
      return malformed("is a module whose output does not start with samples");
    LayerForm form;
    form.output = output.sizes().slice(1).vec();
    for (const auto& parameter : module.module->named_parameters())
      form.parameters.push_back(
          {parameter.key(), parameter.value().sizes().vec()});
    return form;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return malformed("cannot be run: " + text.substr(0, text.find('\n')));
  }
}

// An estimate, for planning without measuring: each parameter is used once per
// row of the input.
void module_cost(const LayerFacts& facts, LayerCost& cost) {
  double parameters = 0;
  for (const Shape& shape : facts.parameters)
    parameters += static_cast<double>(num_elements(shape));
  const Shape& in = facts.inputs[0].shape;
  const double rows = static_cast<double>(facts.input_elements()) /
                      static_cast<double>(in.empty() ? 1 : in.back());
  const double forward =
      2 * parameters * rows + static_cast<double>(facts.output_elements());
  cost.forward = Flops(forward);
  cost.backward_input = Flops(2 * forward);  // forward again, and back
  cost.backward_weight = Flops(parameters > 0 ? forward : 0);
  cost.keeps_input.assign(facts.inputs.size(), true);
}

class ModuleFunction final : public LayerFunction {
 public:
  ModuleFunction(Kind kind, const LayerDescription& description)
      : kind_(std::move(kind)),
        attributes_(description.attributes()),
        shapes_(description.input_shapes),
        wanted_(description.wanted),
        type_(scalar_type(description.layer->output_type)) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    const at::NoGradGuard guard;
    const Lease lease(*this);
    set_parameters(lease.module, weights);
    return {lease.module.forward(inputs), {}};
  }

  // Autograd gives both halves at once; the second is carried.
  Tensors backward_input(const KeptTensors& kept, const Tensors& weights,
                         const at::Tensor& gradient,
                         Tensors* carried) const override {
    const c10::InferenceMode normal(false);
    const c10::AutoGradMode records(true);
    const Lease lease(*this);
    set_parameters(lease.module, weights);
    Tensors inputs;
    std::vector<at::Tensor> leaves;
    for (std::size_t i = 0; i < kept.inputs.size(); ++i) {
      inputs.push_back(kept.inputs[i].clone());  // a leaf of its own
      if (wanted_[i]) leaves.push_back(inputs[i].set_requires_grad(true));
    }
    for (const at::Tensor& parameter : lease.module.module->parameters())
      leaves.push_back(parameter);
    std::vector<at::Tensor> found(leaves.size());
    if (const at::Tensor output = lease.module.forward(inputs);
        output.requires_grad())
      found = torch::autograd::grad({output}, leaves, {gradient.clone()}, false,
                                    false, /*allow_unused=*/true);
    Tensors of_inputs(inputs.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (wanted_[i]) of_inputs[i] = or_zeros(found, leaves, next++);
    for (; carried != nullptr && next < leaves.size(); ++next)
      carried->push_back(or_zeros(found, leaves, next));
    return of_inputs;
  }

  Tensors backward_weight(const KeptTensors&, const at::Tensor&,
                          const Tensors& carried) const override {
    Tensors gradients;
    for (const at::Tensor& gradient : carried)
      gradients.push_back(gradient.clone());
    return gradients;
  }

 private:
  // A module for one caller at a time: workers compute at the same time.
  struct Lease {
    explicit Lease(const ModuleFunction& f) : function(f), module(f.take()) {}
    ~Lease() { function.give_back(std::move(module)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    const ModuleFunction& function;
    WrappedModule module;
  };

  WrappedModule take() const {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return make_module(*kind_, attributes_, shapes_, type_);
    WrappedModule module = std::move(idle_.back());
    idle_.pop_back();
    return module;
  }
  void give_back(WrappedModule module) const {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(module));
  }

  static at::Tensor or_zeros(const std::vector<at::Tensor>& found,
                             const std::vector<at::Tensor>& leaves,
                             std::size_t i) {
    return found[i].defined() ? found[i] : at::zeros_like(leaves[i]).detach();
  }

  const Kind kind_;
  const Attributes attributes_;
  const std::vector<Shape> shapes_;
  const std::vector<bool> wanted_;
  const at::ScalarType type_;
  mutable std::mutex mutex_;
  mutable std::vector<WrappedModule> idle_;
};

// As the module's own constructor sets them, from a seed of the layer's own.
Tensors module_start(const ModuleKind& kind, const LayerDescription& layer,
                     std::uint64_t seed) {
  const RandomStream stream(seed, layer.layer->name);
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  generator.set_current_seed(stream.bits(0));
  const WrappedModule module =
      make_module(kind, layer.attributes(), layer.input_shapes,
                  scalar_type(layer.layer->output_type));
  Tensors parameters;
  for (const at::Tensor& parameter : module.module->parameters())
    parameters.push_back(parameter.detach().clone());
  return parameters;
}

}  // namespace

Result<LayerKind> add_module_kind(ModuleKind request) {
  const Kind kind = std::make_shared<const ModuleKind>(std::move(request));
  KindRule rule;
  rule.name = kind->name;
  rule.inputs = {InputType::Floating};
  rule.min_inputs = rule.max_inputs = kind->num_inputs;
  rule.attributes = kind->attributes;
  rule.form = [kind](const Attributes& attributes,
                     const std::vector<TensorForm>& inputs) {
    return module_form(*kind, attributes, inputs);
  };
  rule.cost = module_cost;
  PIPEWRIGHT_TRY(const LayerKind added, add_kind(std::move(rule)));
  add_custom_layer(added,
                   {[kind](LayerDescription description) {
                      return std::make_unique<const ModuleFunction>(
                          kind, description);
                    },
                    [kind](const LayerDescription& layer, std::uint64_t seed) {
                      return module_start(*kind, layer, seed);
                    }});
  return added;
}

}  // namespace pipewright
