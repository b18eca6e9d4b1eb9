// Kinds that multiply by a weight or look up its rows: linear, embedding,
// positional.

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

Result<LayerForm> linear_form(const Attributes& attributes,
                              const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  if (in.empty())
    return malformed("needs an input of shape ...xfeatures, not a scalar");
  const std::int64_t out = integer(attributes, "out_features");
  LayerForm form{in, {{"weight", {out, in.back()}}}};
  form.output.back() = out;
  if (flag(attributes, "bias")) form.parameters.push_back({"bias", {out}});
  return form;
}

void linear_cost(const LayerFacts& facts, LayerCost& cost) {
  const auto in = static_cast<double>(facts.inputs[0].shape.back());
  const auto out = static_cast<double>(facts.output_elements());
  const double bias = flag(facts.attributes, "bias") ? out : 0;
  cost.forward = Flops(2 * in * out + bias);
  cost.backward_input = Flops(2 * in * out);
  cost.backward_weight = Flops(2 * in * out + bias);
  cost.keeps_input[0] = true;
}

Result<LayerForm> embedding_form(const Attributes& attributes,
                                 const Inputs& inputs) {
  const std::int64_t features = integer(attributes, "features");
  LayerForm form{inputs[0].shape,
                 {{"weight", {integer(attributes, "entries"), features}}}};
  form.output.push_back(features);
  return form;
}

// Only the rows that are looked up are read. Backward adds each row's gradient
// to the table's gradient.
void embedding_cost(const LayerFacts& facts, LayerCost& cost) {
  const auto out = static_cast<double>(facts.output_elements());
  if (real(facts.attributes, "scale") != 1) cost.forward = Flops(out);
  cost.backward_weight = Flops(out);
  cost.memory_traffic.fixed = Bytes(0);
  cost.memory_traffic.per_sample += cost.output.per_sample;
  cost.keeps_input[0] = true;
}

Result<LayerForm> positional_form(const Attributes& attributes,
                                  const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  const std::int64_t positions = integer(attributes, "positions");
  if (in.size() != 2)
    return malformed("needs an input of shape positionsxfeatures, not " +
                     to_text(in));
  if (positions < in[0])
    return malformed("has " + std::to_string(positions) +
                     " positions, but its input of shape " + to_text(in) +
                     " has " + std::to_string(in[0]));
  LayerForm form{in, {}};
  if (flag(attributes, "learned"))
    form.parameters.push_back({"weight", {positions, in[1]}});
  return form;
}

// The gradient of the input is the gradient of the output.
void positional_cost(const LayerFacts& facts, LayerCost& cost) {
  const auto out = static_cast<double>(facts.output_elements());
  cost.forward = Flops(out);
  cost.passes_gradient = true;
  if (flag(facts.attributes, "learned")) cost.backward_weight = Flops(out);
}

}  // namespace

SettingRule part_of_rule() {
  return {
      .name = "part_of", .type = SettingType::Text, .fallback = std::string()};
}

SettingRule first_output_rule() {
  return {.name = "first_output", .fallback = std::int64_t{0}};
}

// y = x W^T + b over the last dimension. Keeps x.
KindRule linear_kind() {
  return {.kind = LayerKind::Linear,
          .name = "linear",
          .inputs = {InputType::Floating},
          .attributes = {{.name = "out_features", .min = 1},
                         {.name = "bias",
                          .type = SettingType::Flag,
                          .fallback = true},
                         part_of_rule(),
                         first_output_rule()},
          .form = linear_form,
          .cost = linear_cost};
}

// Rows of a table, times `scale`. Keeps the indices.
KindRule embedding_kind() {
  return {.kind = LayerKind::Embedding,
          .name = "embedding",
          .inputs = {InputType::Index},
          .attributes = {{.name = "entries", .min = 1},
                         {.name = "features", .min = 1},
                         {.name = "scale",
                          .type = SettingType::Real,
                          .fallback = 1.0,
                          .min = -1e30,
                          .max = 1e30}},
          .form = embedding_form,
          .cost = embedding_cost};
}

// Adds row p of a learned table, or of the fixed table of sines and cosines, to
// position p: features 2i and 2i+1 are the sine and cosine of
// p / 10000^(2i/features). Keeps nothing.
KindRule positional_kind() {
  return {.kind = LayerKind::Positional,
          .name = "positional",
          .inputs = {InputType::Floating},
          .attributes = {{.name = "positions", .min = 1},
                         {.name = "learned",
                          .type = SettingType::Flag,
                          .fallback = true}},
          .form = positional_form,
          .cost = positional_cost};
}

}  // namespace pipewright
