// Kinds that rearrange or add tensors: flatten, add, concat, select. They have
// no parameters and keep nothing.

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

constexpr int kMaxInputs = 1000;

Result<LayerForm> flatten_form(const Attributes&, const Inputs& inputs) {
  return LayerForm{{num_elements(inputs[0].shape)}, {}};
}

// No kernel runs.
void flatten_cost(const LayerFacts&, LayerCost& cost) {
  cost.memory_traffic = {};
  cost.output_is_view = true;
  cost.passes_gradient = true;
}

Result<LayerForm> add_form(const Attributes&, const Inputs& inputs) {
  for (const TensorForm& input : inputs)
    if (input.shape != inputs[0].shape)
      return malformed("adds inputs of different shapes, " +
                       to_text(inputs[0].shape) + " and " +
                       to_text(input.shape));
  return LayerForm{inputs[0].shape, {}};
}

void add_cost(const LayerFacts& facts, LayerCost& cost) {
  cost.forward = Flops(static_cast<double>(facts.output_elements()) *
                       static_cast<double>(facts.inputs.size() - 1));
  cost.passes_gradient = true;
}

Result<LayerForm> concat_form(const Attributes& attributes,
                              const Inputs& inputs) {
  const std::size_t axis = integer(attributes, "axis");
  Shape out = inputs[0].shape;
  if (axis >= out.size())
    return malformed("has axis " + std::to_string(axis) +
                     ", which its input of shape " + to_text(out) +
                     " does not have");
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    Shape same = inputs[i].shape;
    if (same.size() == out.size()) same[axis] = out[axis];
    if (same != out)
      return malformed(
          "cannot join inputs of shapes " + to_text(inputs[0].shape) + " and " +
          to_text(inputs[i].shape) + " along axis " + std::to_string(axis));
    out[axis] += inputs[i].shape[axis];
  }
  return LayerForm{out, {}};
}

void concat_cost(const LayerFacts&, LayerCost&) {}

Result<LayerForm> select_form(const Attributes& attributes,
                              const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  const std::int64_t index = integer(attributes, "index");
  if (in.empty() || index >= in[0])
    return malformed("selects index " + std::to_string(index) +
                     ", which its input of shape " + to_text(in) +
                     " does not have");
  return LayerForm{Shape(in.begin() + 1, in.end()), {}};
}

void select_cost(const LayerFacts&, LayerCost& cost) {
  cost.memory_traffic.per_sample = 2 * cost.output.per_sample;
}

}  // namespace

// To one dimension. The output is a view of the input.
KindRule flatten_kind() {
  return {.kind = LayerKind::Flatten,
          .name = "flatten",
          .inputs = {InputType::Floating},
          .attributes = {},
          .form = flatten_form,
          .cost = flatten_cost};
}

// The sum of two or more tensors of one shape.
KindRule add_kind() {
  return {.kind = LayerKind::Add,
          .name = "add",
          .inputs = {InputType::Floating},
          .max_inputs = kMaxInputs,
          .min_inputs = 2,
          .attributes = {},
          .form = add_form,
          .cost = add_cost};
}

// Along `axis`, counted without the batch dimension: 0 is the channels.
KindRule concat_kind() {
  return {
      .kind = LayerKind::Concat,
      .name = "concat",
      .inputs = {InputType::Floating},
      .max_inputs = kMaxInputs,
      .min_inputs = 2,
      .attributes = {{.name = "axis", .fallback = std::int64_t{0}, .max = 7}},
      .form = concat_form,
      .cost = concat_cost};
}

// One entry of the first dimension, such as the first position of a sequence. A
// copy, so that little crosses a cut after it.
KindRule select_kind() {
  return {.kind = LayerKind::Select,
          .name = "select",
          .inputs = {InputType::Floating},
          .attributes = {{.name = "index", .fallback = std::int64_t{0}}},
          .form = select_form,
          .cost = select_cost};
}

}  // namespace pipewright
