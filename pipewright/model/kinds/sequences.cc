// Kinds for sequences {positions, features}: attention and lstm.

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

// Positions and features of query, key and value, however they are packed.
struct AttentionSizes {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t features = 0;        // of a query and a key
  std::int64_t value_features = 0;  // of a value, so of the output
};

// One packed input, query and packed pair, or all three separately.
// attention_form() checks that the features divide evenly.
AttentionSizes attention_sizes(const Inputs& inputs) {
  const Shape& first = inputs.front().shape;
  const Shape& last = inputs.back().shape;
  const std::int64_t features = inputs.size() == 1 ? first[1] / 3 : first[1];
  return {first[0], last[0], features, inputs.size() == 3 ? last[1] : features};
}

std::string shapes_text(const Inputs& inputs) {
  std::string text;
  for (const TensorForm& input : inputs)
    text += (text.empty() ? "" : " and ") + to_text(input.shape);
  return text;
}

bool attention_inputs_fit(const Inputs& inputs) {
  for (const TensorForm& input : inputs)
    if (input.shape.size() != 2) return false;
  const Shape& first = inputs[0].shape;
  if (inputs.size() == 1) return first[1] % 3 == 0;
  const Shape& second = inputs[1].shape;
  if (inputs.size() == 2) return second[1] == 2 * first[1];
  return second[1] == first[1] && second[0] == inputs[2].shape[0];
}

Result<LayerForm> attention_form(const Attributes& attributes,
                                 const Inputs& inputs) {
  if (!attention_inputs_fit(inputs))
    return malformed(
        "has inputs of shapes " + shapes_text(inputs) + ", which do not fit",
        "",
        "possible inputs: query, key and value in one tensor "
        "positionsx3features; or the query, and key and value in one tensor; "
        "or all three separately");
  const AttentionSizes sizes = attention_sizes(inputs);
  const std::int64_t heads = integer(attributes, "heads");
  if (sizes.features % heads != 0 || sizes.value_features % heads != 0)
    return malformed(
        "has " + std::to_string(heads) + " heads, which do not divide the " +
        std::to_string(sizes.features) + " features of its inputs of shapes " +
        shapes_text(inputs));
  if (flag(attributes, "causal") && sizes.queries != sizes.keys)
    return malformed("is causal, but has " + std::to_string(sizes.queries) +
                     " queries and " + std::to_string(sizes.keys) + " keys");
  if (flag(attributes, "flash") && real(attributes, "dropout") > 0)
    return malformed("is flash attention, which has no dropout, with dropout " +
                         to_text(real(attributes, "dropout")),
                     "", "set dropout=0, or leave flash out");
  if (flag(attributes, "flash") && sizes.features != sizes.value_features)
    return malformed(
        "is flash attention with queries of " + std::to_string(sizes.features) +
        " features and values of " + std::to_string(sizes.value_features));
  if (!checked_elements({heads, sizes.queries, sizes.keys}))
    return malformed("has scores of shape " +
                     to_text(Shape{heads, sizes.queries, sizes.keys}) +
                     ", more than " + std::to_string(kMaxElements));
  return LayerForm{{sizes.queries, sizes.value_features}, {}};
}

// Scores stay in the processor; backward makes them again. What is masked is
// left out.
void flash_cost(const LayerFacts& facts, double products, LayerCost& cost) {
  const AttentionSizes sizes = attention_sizes(facts.inputs);
  const double computed = flag(facts.attributes, "causal") ? 0.5 : 1;
  cost.forward = Flops(computed * products);
  cost.backward_input = Flops(computed * 2.5 * products);
  cost.keeps_output = true;
  cost.keeps_private.per_sample =
      integer(facts.attributes, "heads") * sizes.queries *
      std::max(size_of(NumberType::Float32), size_of(facts.output.type));
}

// Causally masked products count in full, because they are computed.
void attention_cost(const LayerFacts& facts, LayerCost& cost) {
  const AttentionSizes sizes = attention_sizes(facts.inputs);
  const std::int64_t scores =
      integer(facts.attributes, "heads") * sizes.queries * sizes.keys;
  const double products =
      2.0 * static_cast<double>(sizes.queries) *
      static_cast<double>(sizes.keys) *
      static_cast<double>(sizes.features + sizes.value_features);
  cost.forward = Flops(products + 8.0 * static_cast<double>(scores));
  cost.backward_input = Flops(2 * products + 4.0 * static_cast<double>(scores));
  cost.keeps_input.assign(facts.inputs.size(), true);
  if (flag(facts.attributes, "flash")) return flash_cost(facts, products, cost);
  cost.keeps_private.per_sample = Bytes(scores * facts.number_bytes());
  if (real(facts.attributes, "dropout") > 0)
    cost.keeps_private.per_sample += Bytes(scores);
  // Scores are written, normalised and read again.
  cost.memory_traffic.per_sample += Bytes(4 * scores * facts.number_bytes());
}

struct LstmSizes {
  std::int64_t in, hidden, layers, directions;
};

LstmSizes lstm_sizes(const Attributes& attributes, const Inputs& inputs) {
  return {inputs[0].shape[1], integer(attributes, "hidden"),
          integer(attributes, "num_layers"),
          flag(attributes, "bidirectional") ? 2 : 1};
}

Result<LayerForm> lstm_form(const Attributes& attributes,
                            const Inputs& inputs) {
  if (inputs[0].shape.size() != 2)
    return malformed("needs an input of shape positionsxfeatures, not " +
                     to_text(inputs[0].shape));
  const LstmSizes sizes = lstm_sizes(attributes, inputs);
  const std::int64_t gates = 4 * sizes.hidden;
  LayerForm form{{inputs[0].shape[0], sizes.directions * sizes.hidden}, {}};
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    const std::int64_t in =
        layer == 0 ? sizes.in : sizes.directions * sizes.hidden;
    for (std::int64_t direction = 0; direction < sizes.directions;
         ++direction) {
      const std::string suffix =
          "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      form.parameters.push_back({"weight_ih" + suffix, {gates, in}});
      form.parameters.push_back({"weight_hh" + suffix, {gates, sizes.hidden}});
      form.parameters.push_back({"bias_ih" + suffix, {gates}});
      form.parameters.push_back({"bias_hh" + suffix, {gates}});
    }
  }
  return form;
}

// Backpropagation through time uses weight_hh. It is counted with the input's
// gradient, or with the weights' gradient if the input needs none.
void lstm_cost(const LayerFacts& facts, LayerCost& cost) {
  const LstmSizes sizes = lstm_sizes(facts.attributes, facts.inputs);
  const std::int64_t steps = facts.inputs[0].shape[0];
  const auto cells =
      static_cast<double>(steps * sizes.directions * sizes.layers);
  const auto hidden = static_cast<double>(sizes.hidden);
  double input_products = 0;  // with all weight_ih
  for (std::size_t p = 0; p < facts.parameters.size(); p += 4)
    input_products += 2 * static_cast<double>(steps) *
                      static_cast<double>(num_elements(facts.parameters[p]));
  const double time_products = cells * 8 * hidden * hidden;
  const double pointwise = cells * 32 * hidden;
  cost.forward = Flops(input_products + time_products + pointwise);
  cost.backward_input = Flops(input_products + time_products + pointwise);
  cost.backward_weight = Flops(input_products + time_products);
  if (!facts.input_needs_gradient)
    cost.backward_weight += Flops(time_products + pointwise);

  cost.keeps_input[0] = true;
  cost.keeps_output = true;
  const std::int64_t gates_and_cells = 5 * sizes.layers;
  const std::int64_t inner_outputs = sizes.layers - 1;
  cost.keeps_private.per_sample =
      Bytes(facts.output_elements() * (gates_and_cells + inner_outputs) *
            facts.number_bytes());
  cost.memory_traffic.per_sample += cost.keeps_private.per_sample;
}

SettingRule flag_rule(const std::string& name) {
  return {.name = name, .type = SettingType::Flag, .fallback = false};
}

}  // namespace

// softmax(Q K^T / sqrt(features of a head)) V over heads. Linear layers before
// it do the projections: attention itself has no parameters, so that
// self-attention and cross-attention are the same kind. Inputs: query, key and
// value in one tensor; or the query, and key and value in one tensor; or all
// three separately. Keeps its inputs and the probabilities (heads x queries x
// keys), with dropout also a mask of one byte each, so that backward recomputes
// nothing; with flash its inputs, its output and four bytes for each row of the
// scores.
KindRule attention_kind() {
  return {.kind = LayerKind::Attention,
          .name = "attention",
          .inputs = {InputType::Floating},
          .max_inputs = 3,
          .min_inputs = 1,
          .attributes = {{.name = "heads", .min = 1, .max = 65536},
                         flag_rule("causal"),
                         flag_rule("flash"),
                         {.name = "dropout",
                          .type = SettingType::Real,
                          .fallback = 0.0,
                          .min = 0,
                          .max = 0.999999}},
          .form = attention_form,
          .cost = attention_cost};
}

// As in ATen: gates in the order input, forget, cell, output; two biases;
// initial states are zero; the output is that of the last layer at every
// position, both directions concatenated. Keeps its input and output, each
// cell's four gates and state, and the outputs of the inner layers.
KindRule lstm_kind() {
  return {.kind = LayerKind::Lstm,
          .name = "lstm",
          .inputs = {InputType::Floating},
          .attributes = {{.name = "hidden", .min = 1},
                         {.name = "num_layers",
                          .fallback = std::int64_t{1},
                          .min = 1,
                          .max = 256},
                         flag_rule("bidirectional")},
          .form = lstm_form,
          .cost = lstm_cost};
}

}  // namespace pipewright
