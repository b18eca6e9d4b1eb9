// Losses, the last layer of a model: cross_entropy, linear_cross_entropy and
// mse. The second input is the target, a model input; the output is one number,
// the mean over the microbatch.

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

Result<LayerForm> one_target_per_row(const Inputs& inputs,
                                     const std::string& columns) {
  const Shape& in = inputs[0].shape;
  const Shape& target = inputs[1].shape;
  if (in.empty() || Shape(in.begin(), in.end() - 1) != target)
    return malformed("needs inputs of shape ...x" + columns + " and ..., not " +
                     to_text(in) + " and " + to_text(target));
  return LayerForm{{}, {}};
}

Result<LayerForm> cross_entropy_form(const Attributes&, const Inputs& inputs) {
  return one_target_per_row(inputs, "classes");
}

Result<LayerForm> linear_cross_entropy_form(const Attributes& attributes,
                                            const Inputs& inputs) {
  PIPEWRIGHT_TRY(LayerForm form, one_target_per_row(inputs, "features"));
  form.parameters.push_back(
      {"weight", {integer(attributes, "classes"), inputs[0].shape.back()}});
  return form;
}

void one_number(const LayerFacts& facts, LayerCost& cost) {
  const Bytes number(facts.number_bytes());
  cost.output = {number, Bytes(0)};
  cost.memory_traffic.fixed += number;
  cost.memory_traffic.per_sample -= number;
}

// Forward: log-softmax (8) and the target's entry. Backward: the probabilities
// (4) less the target's one.
void cross_entropy_cost(const LayerFacts& facts, LayerCost& cost) {
  one_number(facts, cost);
  const auto elements = static_cast<double>(facts.input_elements());
  cost.forward = Flops(8 * elements);
  cost.backward_input = Flops(6 * elements);
  const Bytes log_probabilities =
      Bytes(facts.input_elements() * facts.number_bytes());
  cost.keeps_input[1] = true;
  cost.keeps_private.per_sample = log_probabilities;
  cost.memory_traffic.per_sample += log_probabilities;
}

// The product as of linear, then as above.
void linear_cross_entropy_cost(const LayerFacts& facts, LayerCost& cost) {
  one_number(facts, cost);
  const auto features = facts.inputs[0].shape.back();
  const std::int64_t logits =
      facts.input_elements() / features * integer(facts.attributes, "classes");
  const double product =
      2 * static_cast<double>(features) * static_cast<double>(logits);
  cost.forward = Flops(product + 8 * static_cast<double>(logits));
  cost.backward_input = cost.backward_weight = Flops(product);
  cost.keeps_input = {true, true};
  cost.keeps_private.per_sample = Bytes(logits * facts.number_bytes());
  cost.memory_traffic.per_sample += cost.keeps_private.per_sample;
}

Result<LayerForm> mse_form(const Attributes&, const Inputs& inputs) {
  if (inputs[0].shape != inputs[1].shape)
    return malformed("needs inputs of one shape, not " +
                     to_text(inputs[0].shape) + " and " +
                     to_text(inputs[1].shape));
  return LayerForm{{}, {}};
}

void mse_cost(const LayerFacts& facts, LayerCost& cost) {
  one_number(facts, cost);
  const auto elements = static_cast<double>(facts.input_elements());
  cost.forward = Flops(3 * elements);
  cost.backward_input = Flops(2 * elements);
  cost.keeps_input = {true, true};
}

}  // namespace

// Mean over all rows of -log softmax(row)[target]; classes are the last
// dimension. Keeps its derivative by the logits, and the target.
KindRule cross_entropy_kind() {
  return {.kind = LayerKind::CrossEntropy,
          .name = "cross_entropy",
          .inputs = {InputType::Floating, InputType::Index},
          .max_inputs = 2,
          .min_inputs = 2,
          .attributes = {},
          .form = cross_entropy_form,
          .cost = cross_entropy_cost};
}

// The cross entropy of a linear layer without bias: the same number, but only
// some rows of logits are there at a time. Keeps its input, its derivative by
// the logits, and the target.
KindRule linear_cross_entropy_kind() {
  return {.kind = LayerKind::LinearCrossEntropy,
          .name = "linear_cross_entropy",
          .inputs = {InputType::Floating, InputType::Index},
          .max_inputs = 2,
          .min_inputs = 2,
          .attributes = {{.name = "classes", .min = 1}},
          .form = linear_cross_entropy_form,
          .cost = linear_cross_entropy_cost};
}

// Mean of the squared differences. Keeps both inputs.
KindRule mse_kind() {
  return {.kind = LayerKind::Mse,
          .name = "mse",
          .inputs = {InputType::Floating},
          .max_inputs = 2,
          .min_inputs = 2,
          .attributes = {},
          .form = mse_form,
          .cost = mse_cost};
}

}  // namespace pipewright
