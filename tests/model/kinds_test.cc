// Each kind's parameters, shapes and costs compared with numbers worked out by
// hand.

#include "pipewright/model/kinds.h"

#include <doctest/doctest.h>

#include "pipewright/model/builder.h"

namespace pipewright {
namespace {

// A model of one trained layer in front (so that gradients are needed), the
// layer in question, and what it costs.
struct Trial {
  Layer layer;
  LayerCost cost;
  std::vector<Shape> parameters;
};

LayerRequest request(LayerKind kind, std::vector<Source> inputs,
                     Attributes attributes) {
  return {"it", kind, std::move(inputs), std::move(attributes), {}};
}

Trial last_layer(ModelBuilder builder) {
  auto model = std::move(builder).build();
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().to_text()));
  Trial trial{model->layers().back(),
              layer_cost(*model, LayerId(model->layers().size() - 1)),
              {}};
  for (ParameterId id : trial.layer.parameters)
    trial.parameters.push_back(model->parameter(id).shape);
  return trial;
}

// Inputs pass through layer norms, which learn and keep their shapes.
Trial trial(LayerKind kind, const std::vector<Shape>& shapes,
            Attributes attributes = {}) {
  ModelBuilder builder("trial");
  std::vector<Source> inputs;
  for (const Shape& shape : shapes) {
    const std::string number = std::to_string(inputs.size());
    const Source x = *builder.add_input({"x" + number, shape});
    inputs.push_back(*builder.add_layer(
        {"norm" + number, LayerKind::LayerNorm, {x}, {}, {}}));
  }
  auto added = builder.add_layer(request(kind, inputs, std::move(attributes)));
  REQUIRE_MESSAGE(added.ok(), (added.ok() ? "" : added.error().to_text()));
  return last_layer(std::move(builder));
}

std::string layer_refusal(LayerKind kind, const std::vector<Shape>& shapes,
                          Attributes attributes = {}) {
  ModelBuilder builder("trial");
  std::vector<Source> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(
        *builder.add_input({"x" + std::to_string(inputs.size()), shape}));
  auto added = builder.add_layer(request(kind, inputs, std::move(attributes)));
  REQUIRE_FALSE(added.ok());
  CHECK(added.error().code == ErrorCode::MalformedInput);
  return added.error().message;
}

Attribute number(std::int64_t n) { return n; }
const Shape kImage = {3, 8, 8};

}  // namespace

TEST_CASE("the list of kinds is in order and its names are read back") {
  for (const KindRule& rule : kind_rules()) {
    CHECK(kind_rule(rule.kind).name == rule.name);
    CHECK(parse_layer_kind(rule.name) == rule.kind);
    CHECK(to_text(rule.kind) == rule.name);
  }
  CHECK(kind_rules().size() == 25);
  CHECK_FALSE(parse_layer_kind("conv").has_value());
}

TEST_CASE("linear: 2 FLOP per product, in each of the three passes") {
  const Trial t =
      trial(LayerKind::Linear, {{5, 8}}, {{"out_features", number(16)}});
  CHECK(t.layer.output == Shape{5, 16});
  CHECK(t.parameters == std::vector<Shape>{{16, 8}, {16}});
  CHECK(t.cost.forward.value() == 2 * 5 * 8 * 16 + 5 * 16);
  CHECK(t.cost.backward_input.value() == 2 * 5 * 8 * 16);
  CHECK(t.cost.backward_weight.value() == 2 * 5 * 8 * 16 + 5 * 16);
  CHECK(t.cost.parameters == Bytes(4 * (16 * 8 + 16)));
  CHECK(t.cost.output == Size{Bytes(0), Bytes(4 * 5 * 16)});
  CHECK(t.cost.memory_traffic ==
        Size{Bytes(4 * (16 * 8 + 16)), Bytes(4 * 5 * (8 + 16))});
  CHECK(t.cost.keeps_input == std::vector<bool>{true});
  CHECK_FALSE(t.cost.keeps_output);
  CHECK(t.cost.keeps_private == Size{});
}

TEST_CASE("conv2d: groups, dilation, uneven kernels") {
  const Trial t = trial(LayerKind::Conv2d, {{4, 9, 10}},
                        {{"out_channels", number(6)},
                         {"kernel", Shape{1, 3}},
                         {"stride", Shape{2, 1}},
                         {"padding", Shape{0, 2}},
                         {"dilation", Shape{1, 2}},
                         {"groups", number(2)},
                         {"bias", false}});
  // Height (9 - 1) / 2 + 1, width 10 + 4 - 2 * 2 - 1 + 1.
  CHECK(t.layer.output == Shape{6, 5, 10});
  CHECK(t.parameters == std::vector<Shape>{{6, 2, 1, 3}});
  const double products = 6 * 5 * 10 * 2 * 3;
  CHECK(t.cost.forward.value() == 2 * products);
  CHECK(t.cost.backward_input.value() == 2 * products);
  CHECK(t.cost.backward_weight.value() == 2 * products);
  CHECK(t.cost.keeps_input[0]);
}

TEST_CASE("pools: rounding up never starts a window beyond the image") {
  const auto side = [](std::int64_t in, std::int64_t kernel,
                       std::int64_t stride, std::int64_t padding, bool ceil) {
    return trial(LayerKind::MaxPool, {{1, in, in}},
                 {{"kernel", number(kernel)},
                  {"stride", number(stride)},
                  {"padding", number(padding)},
                  {"ceil", ceil}})
        .layer.output[1];
  };
  CHECK(side(54, 3, 2, 0, true) == 27);
  CHECK(side(54, 3, 2, 0, false) == 26);
  CHECK(side(5, 2, 3, 1, true) == 2);  // a third would start at 6 - 1 >= 5
  CHECK(side(6, 2, 2, 0, true) == 3);
  CHECK(side(7, 2, 2, 0, true) == 4);
}

TEST_CASE("pools keep what ATen's backward takes") {
  const Trial max =
      trial(LayerKind::MaxPool, {kImage}, {{"kernel", number(2)}});
  CHECK(max.layer.output == Shape{3, 4, 4});  // the stride is the kernel
  CHECK_FALSE(max.cost.keeps_input[0]);
  CHECK(max.cost.keeps_private == Size{Bytes(0), Bytes(8 * 3 * 4 * 4)});
  CHECK(max.cost.backward_weight.value() == 0);
  const Trial avg =
      trial(LayerKind::AvgPool, {kImage}, {{"kernel", number(2)}});
  CHECK_FALSE(avg.cost.keeps_input[0]);
  const Trial adaptive = trial(LayerKind::AdaptiveAvgPool, {kImage});
  CHECK(adaptive.layer.output == Shape{3, 1, 1});
}

TEST_CASE("norms keep their input and two statistics") {
  const Trial batch = trial(LayerKind::BatchNorm, {kImage});
  CHECK(batch.parameters == std::vector<Shape>{{3}, {3}});
  CHECK(batch.cost.keeps_input[0]);
  CHECK(batch.cost.keeps_private == Size{Bytes(2 * 3 * 4), Bytes(0)});
  const Trial layer = trial(LayerKind::LayerNorm, {{5, 8}});
  CHECK(layer.parameters == std::vector<Shape>{{8}, {8}});
  CHECK(layer.cost.keeps_private == Size{Bytes(0), Bytes(2 * 5 * 4)});
}

TEST_CASE("activations keep input, output or a mask") {
  for (LayerKind kind : {LayerKind::Relu, LayerKind::Tanh, LayerKind::Sigmoid,
                         LayerKind::Softmax}) {
    const Trial t = trial(kind, {{5, 8}});
    CHECK(t.cost.keeps_output);
    CHECK_FALSE(t.cost.keeps_input[0]);
    CHECK(t.cost.keeps_private == Size{});
  }
  const Trial gelu = trial(LayerKind::Gelu, {{5, 8}});
  CHECK(gelu.cost.keeps_input[0]);
  CHECK_FALSE(gelu.cost.keeps_output);
  const Trial dropout = trial(LayerKind::Dropout, {{5, 8}});
  CHECK_FALSE(dropout.cost.keeps_input[0]);
  CHECK(dropout.cost.keeps_private == Size{Bytes(0), Bytes(5 * 8)});
}

TEST_CASE("joints keep nothing; flatten has no memory traffic") {
  const Trial flat = trial(LayerKind::Flatten, {kImage});
  CHECK(flat.layer.output == Shape{3 * 8 * 8});
  CHECK(flat.cost.output_is_view);
  CHECK(flat.cost.memory_traffic == Size{});
  const Trial sum = trial(LayerKind::Add, {{8}, {8}, {8}});
  CHECK(sum.cost.forward.value() == 16);
  CHECK(sum.cost.keeps_input == std::vector<bool>(3, false));
  const Trial join =
      trial(LayerKind::Concat, {{5, 8}, {5, 3}}, {{"axis", number(1)}});
  CHECK(join.layer.output == Shape{5, 11});
  const Trial first = trial(LayerKind::Select, {{5, 8}});
  CHECK(first.layer.output == Shape{8});
  CHECK_FALSE(first.cost.output_is_view);
}

TEST_CASE("attention is the same however its inputs are packed") {
  const Attributes heads = {{"heads", number(2)}};
  const Trial one = trial(LayerKind::Attention, {{5, 24}}, heads);
  const Trial two = trial(LayerKind::Attention, {{5, 8}, {5, 16}}, heads);
  const Trial three =
      trial(LayerKind::Attention, {{5, 8}, {5, 8}, {5, 8}}, heads);
  for (const Trial& t : {one, two, three}) {
    CHECK(t.layer.output == Shape{5, 8});
    CHECK(t.parameters.empty());
    CHECK(t.cost.forward.value() == 2 * 5 * 5 * 16 + 8 * 2 * 25);
    CHECK(t.cost.backward_input.value() == 4 * 5 * 5 * 16 + 4 * 2 * 25);
    CHECK(t.cost.keeps_private == Size{Bytes(0), Bytes(4 * 2 * 25)});
  }
  CHECK(three.cost.keeps_input == std::vector<bool>(3, true));
  const Trial cross = trial(LayerKind::Attention, {{5, 8}, {7, 16}}, heads);
  CHECK(cross.layer.output == Shape{5, 8});
  CHECK(cross.cost.keeps_private == Size{Bytes(0), Bytes(4 * 2 * 35)});
  const Trial masked = trial(LayerKind::Attention, {{5, 24}},
                             {{"heads", number(2)}, {"dropout", 0.1}});
  CHECK(masked.cost.keeps_private == Size{Bytes(0), Bytes(5 * 2 * 25)});
}

TEST_CASE("lstm: two biases per layer and direction, gates and cells kept") {
  const Trial t = trial(LayerKind::Lstm, {{5, 8}},
                        {{"hidden", number(6)},
                         {"num_layers", number(2)},
                         {"bidirectional", true}});
  CHECK(t.layer.output == Shape{5, 12});
  CHECK(t.parameters.size() == 16);
  CHECK(t.parameters[0] == Shape{24, 8});
  CHECK(t.parameters[8] == Shape{24, 12});
  CHECK(t.cost.keeps_input[0]);
  CHECK(t.cost.keeps_output);
  // 5 steps, 2 directions, 2 layers: 4 gates and a cell of 6; and the first
  // layer's output.
  CHECK(t.cost.keeps_private ==
        Size{Bytes(0), Bytes(4 * (5 * 2 * 2 * 5 * 6 + 5 * 12))});
  const double with_weights = 5 * 2 * 24 * (8 + 6 + 12 + 6) * 2;
  CHECK(t.cost.backward_weight.value() == with_weights);
}

TEST_CASE("a loss is one number, whatever the microbatch") {
  ModelBuilder builder("m");
  const Source x = *builder.add_input({"x", {5, 8}});
  const Source target = *builder.add_input({"target", {5}, NumberType::Int64});
  const Source y = *builder.add_layer(
      {"fc", LayerKind::Linear, {x}, {{"out_features", number(9)}}, {}});
  REQUIRE(builder.add_layer(
      {"loss", LayerKind::CrossEntropy, {y, target}, {}, {}}));
  const Trial t = last_layer(std::move(builder));
  CHECK(t.cost.output == Size{Bytes(4), Bytes(0)});
  CHECK(t.cost.keeps_input == std::vector<bool>{false, true});
  CHECK(t.cost.keeps_private == Size{Bytes(0), Bytes(4 * 5 * 9)});
  ModelBuilder other("m");
  const Source rows = *other.add_input({"x", {5, 8}});
  const Source classes = *other.add_input({"target", {5}, NumberType::Int64});
  const Source z =
      *other.add_layer({"norm", LayerKind::LayerNorm, {rows}, {}, {}});
  REQUIRE(other.add_layer({"loss",
                           LayerKind::LinearCrossEntropy,
                           {z, classes},
                           {{"classes", number(9)}},
                           {}}));
  const Trial joined = last_layer(std::move(other));
  CHECK(joined.parameters == std::vector<Shape>{{9, 8}});
  CHECK(joined.cost.output == Size{Bytes(4), Bytes(0)});
  CHECK(joined.cost.keeps_input == std::vector<bool>{true, true});
  CHECK(joined.cost.keeps_private == Size{Bytes(0), Bytes(4 * 5 * 9)});
  CHECK(joined.cost.forward.value() == 2 * 5 * 8 * 9 + 8 * 5 * 9);
  CHECK(joined.cost.backward_weight.value() == 2 * 5 * 8 * 9);
  const Trial mse = trial(LayerKind::Mse, {{8}, {8}});
  CHECK(mse.cost.keeps_input == std::vector<bool>{true, true});
  CHECK(mse.layer.output.empty());
}

TEST_CASE("where no gradient is needed nothing is kept or computed") {
  ModelBuilder builder("m");
  const Source x = *builder.add_input({"x", {8}});
  const Source a = *builder.add_layer({"a", LayerKind::Gelu, {x}, {}, {}});
  const Source b = *builder.add_layer(
      {"b", LayerKind::Linear, {a}, {{"out_features", number(4)}}, {}});
  REQUIRE(builder.add_layer({"c", LayerKind::Relu, {b}, {}, {}}));
  auto model = std::move(builder).build();
  REQUIRE(model);
  const LayerCost gelu = layer_cost(*model, LayerId(0));
  CHECK(gelu.backward_input.value() == 0);
  CHECK_FALSE(gelu.keeps_input[0]);
  const LayerCost linear = layer_cost(*model, LayerId(1));
  CHECK(linear.backward_input.value() == 0);
  CHECK(linear.backward_weight.value() == 2 * 8 * 4 + 4);
  CHECK(linear.keeps_input[0]);
  CHECK(layer_cost(*model, LayerId(2)).backward_input.value() == 4);
}

TEST_CASE("shapes that do not fit are rejected by name") {
  const auto has = [](const std::string& text, const std::string& part) {
    const bool found = text.find(part) != std::string::npos;
    if (!found) MESSAGE(text);
    return found;
  };
  CHECK(has(layer_refusal(LayerKind::Conv2d, {{3, 2, 2}},
                          {{"out_channels", number(1)}, {"kernel", number(3)}}),
            "layer \"it\" (conv2d) has a kernel of 3x3, which does not fit "
            "its input of shape 3x2x2"));
  CHECK(has(layer_refusal(LayerKind::Conv2d, {kImage},
                          {{"out_channels", number(4)},
                           {"kernel", number(3)},
                           {"groups", number(2)}}),
            "3x8x8"));
  CHECK(has(
      layer_refusal(LayerKind::Concat, {{5, 8}, {6, 3}}, {{"axis", number(1)}}),
      "5x8 and 6x3"));
  CHECK(has(
      layer_refusal(LayerKind::Attention, {{5, 24}}, {{"heads", number(3)}}),
      "3 heads"));
  CHECK(has(layer_refusal(LayerKind::Attention, {{5, 8}, {5, 8}},
                          {{"heads", number(2)}}),
            "5x8 and 5x8"));
  CHECK(has(layer_refusal(LayerKind::Attention, {{5, 8}, {7, 16}},
                          {{"heads", number(2)}, {"causal", true}}),
            "5 queries and 7 keys"));
  CHECK(has(
      layer_refusal(LayerKind::Attention, {{5, 24}},
                    {{"heads", number(2)}, {"flash", true}, {"dropout", 0.1}}),
      "no dropout"));
  CHECK(has(layer_refusal(LayerKind::Attention, {{5, 8}, {7, 8}, {7, 4}},
                          {{"heads", number(2)}, {"flash", true}}),
            "values of 4"));
  CHECK(has(layer_refusal(LayerKind::Mse, {{5}, {6}}), "not 5 and 6"));
  CHECK(has(layer_refusal(LayerKind::Add, {{5}}), "takes 2 to 1000 inputs"));
  CHECK(has(layer_refusal(LayerKind::Embedding, {{5}},
                          {{"entries", number(3)}, {"features", number(3)}}),
            "needs int64 numbers"));
  CHECK(has(layer_refusal(LayerKind::Positional, {{5, 8}},
                          {{"positions", number(4)}}),
            "has 4 positions, but its input of shape 5x8 has 5"));
  CHECK(has(layer_refusal(LayerKind::Linear, {{5}}),
            "missing setting \"out_features\""));
  CHECK(has(layer_refusal(LayerKind::Relu, {{5}}, {{"slope", 0.1}}),
            "\"slope\""));
}

}  // namespace pipewright
