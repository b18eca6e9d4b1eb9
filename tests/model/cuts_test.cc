// Cuts and kept bytes against their definitions, on random graphs and orders.

#include "pipewright/model/cuts.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include "pipewright/model/builder.h"
#include "pipewright/model/repeats.h"

namespace pipewright {
namespace {

// A random graph of layers over tensors of 12 numbers, some as 3x2x2.
Model random_model(std::mt19937& random) {
  ModelBuilder builder("random");
  std::vector<Source> images = {*builder.add_input({"x", {3, 2, 2}})};
  std::vector<Source> flat;
  std::set<int> unused;
  const auto pick = [&](const std::vector<Source>& from) {
    const Source source = from[random() % from.size()];
    unused.erase(source.layer.value);
    return source;
  };
  const auto add = [&](LayerKind kind, std::vector<Source> inputs,
                       Attributes attributes = {}) {
    const std::string name = "l" + std::to_string(images.size() + flat.size());
    const Source made = *builder.add_layer(
        {name, kind, std::move(inputs), std::move(attributes), {}});
    unused.insert(made.layer.value);
    return made;
  };
  for (int i = 0; i < 12; ++i) {
    switch (random() % 6) {
      case 0:
        images.push_back(add(LayerKind::BatchNorm, {pick(images)}));
        break;
      case 1:
        images.push_back(add(LayerKind::Relu, {pick(images)}));
        break;
      case 2:
        images.push_back(add(LayerKind::Add, {pick(images), pick(images)}));
        break;
      case 3:
        images.push_back(add(LayerKind::Dropout, {pick(images)}));
        break;
      case 4:
        flat.push_back(add(LayerKind::Flatten, {pick(images)}));
        break;
      default:
        if (!flat.empty()) flat.push_back(add(LayerKind::Gelu, {pick(flat)}));
    }
  }
  // Everything unused is flattened and summed at the end.
  std::vector<Source> ends;
  const std::set<int> loose = unused;
  for (int layer : loose) {
    const Source source{LayerId(layer), -1};
    const bool is_flat =
        std::find(flat.begin(), flat.end(), source) != flat.end();
    ends.push_back(is_flat ? source : add(LayerKind::Flatten, {source}));
    if (!is_flat) flat.push_back(ends.back());
  }
  if (ends.size() == 1)
    add(LayerKind::Relu, ends);
  else
    add(LayerKind::Add, ends);
  auto model = std::move(builder).build();
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().to_text()));
  return *std::move(model);
}

std::vector<LayerId> random_order(const Model& model, std::mt19937& random) {
  std::vector<LayerId> order;
  std::vector<bool> done(model.layers().size());
  while (order.size() < done.size()) {
    const LayerId id(random() % done.size());
    bool ready = !done[id.index()];
    for (const Source& source : model.layer(id).inputs)
      ready = ready && (source.is_model_input() || done[source.layer.index()]);
    if (!ready) continue;
    done[id.index()] = true;
    order.push_back(id);
  }
  return order;
}

// The layer at the end of a chain of views.
LayerId owner(const Model& model, LayerId id) {
  const Layer& layer = model.layer(id);
  if (layer.kind != LayerKind::Flatten || layer.inputs[0].is_model_input())
    return id;
  return owner(model, layer.inputs[0].layer);
}

Size kept_size(const Model& model, const std::vector<LayerId>& layers) {
  Size total;
  for (const Size& size : added_kept_sizes(model, layers)) total += size;
  return total;
}

}  // namespace

TEST_CASE("a tensor crosses a position if created before and used after it") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const Model model = random_model(random);
    const std::vector<LayerId> order = random_order(model, random);
    const auto cuts = cut_sizes(model, order);
    REQUIRE(cuts.size() == order.size() + 1);
    for (std::size_t p = 0; p <= order.size(); ++p) {
      std::set<LayerId> before(order.begin(),
                               order.begin() + static_cast<std::ptrdiff_t>(p));
      std::set<LayerId> crossing;
      for (std::size_t q = p; q < order.size(); ++q)
        for (const Source& source : model.layer(order[q]).inputs)
          if (!source.is_model_input())
            if (LayerId id = owner(model, source.layer); before.count(id))
              crossing.insert(id);
      Crossing expected;
      for (LayerId id : crossing) {
        expected.forward += layer_cost(model, id).output;
        if (model.needs_gradient(id))
          expected.backward += layer_cost(model, id).output;
      }
      CHECK(cuts[p] == expected);
    }
    CHECK(cuts.front() == Crossing{});
    CHECK(cuts.back() == Crossing{});
  }
}

TEST_CASE("a storage that several layers keep counts once") {
  std::mt19937 random(8);
  for (int trial = 0; trial < 300; ++trial) {
    const Model model = random_model(random);
    std::vector<LayerId> layers;
    for (LayerId id : model_order(model))
      if (random() % 2) layers.push_back(id);
    std::shuffle(layers.begin(), layers.end(), random);
    std::set<std::pair<LayerId, int>> kept;
    Size expected;
    for (LayerId id : layers) {
      const LayerCost cost = layer_cost(model, id);
      expected += cost.keeps_private;
      const Layer& layer = model.layer(id);
      for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
        if (!cost.keeps_input[i]) continue;
        const Source& source = layer.inputs[i];
        kept.insert(source.is_model_input()
                        ? std::pair{LayerId(), source.input}
                        : std::pair{owner(model, source.layer), -1});
      }
      if (cost.keeps_output) kept.insert({owner(model, id), -1});
    }
    const auto storages_kept = static_cast<std::int64_t>(kept.size());
    expected += {Bytes(0), Bytes(4 * 12 * storages_kept)};
    CHECK(kept_size(model, layers) == expected);
  }
}

TEST_CASE("relu and the convolution after it keep one tensor") {
  auto model = load_model("vgg16:dropout=0");
  REQUIRE(model);
  std::vector<LayerId> relu_conv;
  for (LayerId id : model_order(*model))
    if (model->layer(id).name == "relu1_1" ||
        model->layer(id).name == "conv1_2")
      relu_conv.push_back(id);
  REQUIRE(relu_conv.size() == 2);
  CHECK(kept_size(*model, relu_conv) ==
        Size{Bytes(0), Bytes(4LL * 64 * 224 * 224)});
}

TEST_CASE("a skip connection crosses the cuts it spans") {
  auto model = load_model("resnet18");
  REQUIRE(model);
  const auto cuts = cut_sizes(*model);
  std::size_t inside = 0;  // after the first convolution of the second block
  for (std::size_t l = 0; l < model->layers().size(); ++l)
    if (model->layers()[l].name == "step1.block1.conv1") inside = l + 1;
  const Bytes tensor(4 * 64 * 56 * 56);
  CHECK(cuts[inside].forward.per_sample == 2 * tensor);
  CHECK(cuts[inside].backward.per_sample == 2 * tensor);
  CHECK(cuts[inside - 1].forward.per_sample == tensor);
}

TEST_CASE("tokens and tensors before all weights have no gradient") {
  ModelBuilder builder("m");
  const Source x = *builder.add_input({"x", {4}});
  const Source a = *builder.add_layer({"a", LayerKind::Relu, {x}, {}, {}});
  REQUIRE(builder.add_layer(
      {"b", LayerKind::Linear, {a}, {{"out_features", std::int64_t{2}}}, {}}));
  auto model = std::move(builder).build();
  REQUIRE(model);
  CHECK(cut_sizes(*model)[1].forward == Size{Bytes(0), Bytes(16)});
  CHECK(cut_sizes(*model)[1].backward == Size{});
}

TEST_CASE("runs of equal blocks are found, and only those") {
  const auto runs = [](const std::string& name) {
    auto model = load_model(name);
    REQUIRE(model);
    std::string text;
    for (const BlockRun& run : repeated_blocks(*model))
      text += run.stem + std::to_string(run.start) + "*" +
              std::to_string(run.count) + " ";
    return text;
  };
  CHECK(runs("gpt2") == "block0*12 ");
  CHECK(runs("resnet50") ==
        "step1.block1*2 step2.block1*3 step3.block1*5 step4.block1*2 ");
  CHECK(runs("transformer") == "encoder.block0*6 decoder.block0*6 ");
  CHECK(runs("vgg16") == "");
  CHECK(runs("densenet121") == "");  // each block is wider than the last
}

}  // namespace pipewright
