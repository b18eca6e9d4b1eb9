// Files of exported models: those of the small networks in tests/python, and
// what is refused.

#include "pipewright/model/exported/exported_model.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/base/files.h"
#include "pipewright/model/model_file.h"

namespace pipewright {
namespace {

std::string fixture(const std::string& name) {
  return PIPEWRIGHT_SOURCE_DIR "/tests/runtime/layers/exported/" + name +
         ".json";
}

Model exported(const std::string& name) {
  auto model = load_model(fixture(name));
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().to_text()));
  return *std::move(model);
}

std::string replaced(std::string text, const std::string& from,
                     const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

TEST_CASE("layers, parameters and inputs have the module's names") {
  const Model model = exported("mixed");
  CHECK(model.name() == "Mixed");
  CHECK(model.inputs()[0] == ModelInput{"image", {6}, NumberType::Float32});
  CHECK(model.inputs()[2] == ModelInput{"labels", {}, NumberType::Int64});
  CHECK(model.layer(LayerId(0)).name == "frozen");
  CHECK(model.layer(LayerId(0)).parameters.empty());
  CHECK_FALSE(model.needs_gradient(LayerId(0)));
  CHECK(model.parameters()[0].name == "first.weight");
  CHECK(model.exported()->index_bounds[2] == 3);
  // 8x8 + 8, twice that for the blocks, the norm's 16 and the head's 27.
  CHECK(model.num_parameters() == 72 + 2 * 72 + 16 + 27);
  CHECK(load_model(fixture("mixed")).value() == model);
  CHECK(to_text(model) == read_file(fixture("mixed")).value());
}

TEST_CASE("a tied parameter is one parameter with two names") {
  const Model model = exported("language");
  CHECK(model.exported()->tied_names.at("embed.weight") ==
        std::vector<std::string>{"head.weight"});
  CHECK(model.layer(LayerId(0)).parameters[0] ==
        model.layer(LayerId(3)).parameters[0]);
}

TEST_CASE("costs are those of the file") {
  const Model model = exported("mixed");
  const LayerId first(1);  // a linear layer of 8x8 and what follows it
  const LayerCost cost = layer_cost(model, first);
  CHECK(cost.forward.value() >= 2 * 8 * 8);
  CHECK(cost.output == Size{Bytes(0), Bytes(32)});
  CHECK(cost.parameters == Bytes(4 * 72));
  const LayerId loss(model.num_layers() - 1);
  CHECK(layer_cost(model, loss).output == Size{Bytes(4), Bytes(0)});
}

TEST_CASE("a file that does not fit together is refused with its place") {
  const std::string text = read_file(fixture("mixed")).value();
  const auto refusal = [&](const std::string& from, const std::string& to) {
    const auto model = parse_exported(replaced(text, from, to), "net.json");
    REQUIRE_FALSE(model.ok());
    return model.error().to_text();
  };
  const auto has = [](const std::string& where, const std::string& what) {
    CHECK_MESSAGE(where.find(what) != std::string::npos, where);
  };
  has(refusal("\"from\": [\"first\"]", "\"from\": [\"nobody\"]"),
      "unknown layer or input \"nobody\"");
  has(refusal("\"parameters\": [\"first.weight\"",
              "\"parameters\": [\"first.w\""),
      "unknown parameter \"first.w\"");
  has(refusal("\"constants\": [\"frozen.weight\"", "\"constants\": [\"ice\""),
      "unknown buffer \"ice\"");
  has(refusal("addmm(%", "addmm(%9"), "which is not made before");
  has(refusal("\"version\": 1", "\"version\": 2"), "version");
  has(refusal("\"function\": 1", "\"function\": 99"), "function");
  has(refusal("\"shape\": [], \"type\": \"float32\", \"fixed\": true",
              "\"shape\": [3], \"type\": \"float32\", \"fixed\": true"),
      "must be the loss");
  has(refusal("\"private\": 0", "\"private\": 1"), "this layer needs");
}

TEST_CASE("a damaged file is read or refused") {
  const std::string text = read_file(fixture("mixed")).value();
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = text;
    damaged[random() % damaged.size()] = static_cast<char>(' ' + random() % 95);
    refused += !parse_exported(damaged, "net.json").ok();
  }
  CHECK(refused > 100);
}

TEST_CASE("the kind of its layers is not for model files") {
  const auto model = parse_model(
      R"({"format": "pipewright/model", "version": 1, "name": "x",
          "inputs": [{"name": "in0", "shape": [4]}],
          "layers": [{"name": "a", "kind": "exported"}]})",
      "x.json");
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().to_text().find("pipewright.export()") !=
        std::string::npos);
}

}  // namespace
}  // namespace pipewright
