// Elementwise kinds, and softmax: the output has the input's shape. A
// transcendental function counts as 4 FLOP.

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

Result<LayerForm> same_form(const Attributes&, const Inputs& inputs) {
  return LayerForm{inputs[0].shape, {}};
}

void flops_per_element(const LayerFacts& facts, double forward, double backward,
                       LayerCost& cost) {
  const auto elements = static_cast<double>(facts.output_elements());
  cost.forward = Flops(forward * elements);
  cost.backward_input = Flops(backward * elements);
}

void relu_cost(const LayerFacts& facts, LayerCost& cost) {
  flops_per_element(facts, 1, 1, cost);
  cost.keeps_output = true;
}

// The derivative is a function of the input, not of the output.
void gelu_cost(const LayerFacts& facts, LayerCost& cost) {
  flops_per_element(facts, 8, 14, cost);
  cost.keeps_input[0] = true;
}

void tanh_cost(const LayerFacts& facts, LayerCost& cost) {
  flops_per_element(facts, 4, 3, cost);
  cost.keeps_output = true;
}

void sigmoid_cost(const LayerFacts& facts, LayerCost& cost) {
  flops_per_element(facts, 6, 3, cost);
  cost.keeps_output = true;
}

void softmax_cost(const LayerFacts& facts, LayerCost& cost) {
  flops_per_element(facts, 8, 4, cost);  // maximum, exponent, sum, quotient
  cost.keeps_output = true;
}

void dropout_cost(const LayerFacts& facts, LayerCost& cost) {
  flops_per_element(facts, 2, 2, cost);
  cost.keeps_private.per_sample = Bytes(facts.output_elements());
  cost.memory_traffic.per_sample += cost.keeps_private.per_sample;
}

KindRule element_kind(LayerKind kind, const char* name,
                      void (*cost)(const LayerFacts&, LayerCost&),
                      std::vector<SettingRule> attributes = {}) {
  return {.kind = kind,
          .name = name,
          .inputs = {InputType::Floating},
          .attributes = std::move(attributes),
          .form = same_form,
          .cost = cost};
}

Result<LayerForm> softmax_form(const Attributes&, const Inputs& inputs) {
  if (inputs[0].shape.empty())
    return malformed("needs an input of shape ...xclasses, not a scalar");
  return LayerForm{inputs[0].shape, {}};
}

}  // namespace

// Keeps its output.
KindRule relu_kind() {
  return element_kind(LayerKind::Relu, "relu", relu_cost);
}

// Keeps its input. "none" is x times the normal distribution, "tanh" GPT-2's
// approximation of it.
KindRule gelu_kind() {
  return element_kind(LayerKind::Gelu, "gelu", gelu_cost,
                      {{.name = "approximate",
                        .type = SettingType::Text,
                        .fallback = std::string("none"),
                        .choices = {"none", "tanh"}}});
}

// Keeps its output.
KindRule tanh_kind() {
  return element_kind(LayerKind::Tanh, "tanh", tanh_cost);
}

// Keeps its output.
KindRule sigmoid_kind() {
  return element_kind(LayerKind::Sigmoid, "sigmoid", sigmoid_cost);
}

// Over the last dimension. Keeps its output.
KindRule softmax_kind() {
  KindRule rule = element_kind(LayerKind::Softmax, "softmax", softmax_cost);
  rule.form = softmax_form;
  return rule;
}

// Sets elements to 0 with probability `rate` and scales the others by
// 1 / (1 - rate). Keeps a mask of one byte per element.
KindRule dropout_kind() {
  return element_kind(LayerKind::Dropout, "dropout", dropout_cost,
                      {{.name = "rate",
                        .type = SettingType::Real,
                        .fallback = 0.5,
                        .min = 0,
                        .max = 0.999999}});
}

}  // namespace pipewright
