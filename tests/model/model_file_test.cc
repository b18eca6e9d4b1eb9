// The model file: what it means, that it round-trips, and what it rejects.

#include "pipewright/model/model_file.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/model/zoo/zoo.h"

namespace pipewright {
namespace {

std::string file_of(const std::string& layers) {
  return R"({"format": "pipewright/model", "version": 1, "name": "own",
  "inputs": [{"name": "x", "shape": [8]},
             {"name": "target", "shape": [], "type": "int64"}],
  "layers": [)" +
         layers + "\n]}";
}

const char kLoss[] =
    R"(, {"name": "loss", "kind": "cross_entropy", "from": ["out", "target"]})";

std::string file_refusal(const std::string& text) {
  auto model = parse_model(text, "m.json");
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().code == ErrorCode::MalformedInput);
  return model.error().to_text();
}

bool says(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("every zoo model reads back equal") {
  for (const ZooEntry& entry : zoo()) {
    auto made = zoo_model(entry.name);
    REQUIRE(made);
    const std::string text = to_text(*made);
    auto again = parse_model(text, entry.name);
    REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.error().to_text()));
    CHECK_MESSAGE(*again == *made, entry.name);
    CHECK(to_text(*again) == text);
  }
}

TEST_CASE("equal blocks are written once") {
  const auto lines = [](const std::string& name) {
    const std::string text = to_text(*zoo_model(name));
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines("gpt2") == lines("gpt2-xl"));
  CHECK(lines("gpt:layers=5000") == lines("gpt:layers=2"));
  CHECK(lines("transformer") < 60);
  CHECK(lines("resnet152") < 130);
}

TEST_CASE("a repeated block is its layers written out") {
  auto folded = parse_model(file_of(
                                R"({"repeat": 2, "name": "b{i}", "layers": [
                {"name": "fc", "kind": "linear", "out_features": 8},
                {"name": "add", "kind": "add", "from": ["fc", "in"]}]},
              {"name": "out", "kind": "linear", "out_features": 3})" +
                                std::string(kLoss)),
                            "m.json");
  auto flat =
      parse_model(file_of(
                      R"({"name": "b0.fc", "kind": "linear", "out_features": 8},
             {"name": "b0.add", "kind": "add", "from": ["b0.fc", "x"]},
             {"name": "b1.fc", "kind": "linear", "out_features": 8},
             {"name": "b1.add", "kind": "add", "from": ["b1.fc", "b0"]},
             {"name": "out", "kind": "linear", "out_features": 3})" +
                      std::string(kLoss)),
                  "m.json");
  REQUIRE(folded);
  // A block's own name is known only where it was written as a block.
  REQUIRE_FALSE(flat);
  CHECK(says(flat.error().to_text(), "unknown layer, block or input \"b0\""));
  CHECK(folded->num_layers() == 6);
  CHECK(folded->layers()[3].name == "b1.add");
  CHECK(folded->layers()[3].inputs[1] == Source{LayerId(1), -1});
  CHECK(folded->layers()[1].inputs[1] == Source{LayerId(), 0});
  CHECK(*parse_model(to_text(*folded), "m.json") == *folded);
}

TEST_CASE("blocks nest, count from a start, and are known by name") {
  auto model =
      parse_model(file_of(
                      R"({"repeat": 2, "start": 1, "name": "a{i}", "layers": [
                {"repeat": 3, "name": "b{i}", "layers": [
                  {"name": "fc", "kind": "linear", "out_features": 8}]},
                {"name": "add", "kind": "add", "from": ["b0", "b2", "in"]}]},
              {"name": "out", "kind": "linear", "out_features": 8,
               "from": "a1", "share": {"weight": "a1.b0.fc.weight"}},
              {"name": "sum", "kind": "add", "from": ["a2.b1", "a2", "out"]},
              {"name": "loss", "kind": "cross_entropy",
               "from": ["sum", "target"]})"),
                  "m.json");
  REQUIRE_MESSAGE(model.ok(), (model.ok() ? "" : model.error().to_text()));
  CHECK(model->num_layers() == 11);
  CHECK(model->layers()[4].name == "a2.b0.fc");
  CHECK(model->layers()[3].inputs ==
        std::vector<Source>{{LayerId(0), -1}, {LayerId(2), -1}, {{}, 0}});
  CHECK(model->layers()[8].inputs[0] == Source{LayerId(3), -1});
  CHECK(model->layers()[8].parameters[0] == model->layers()[0].parameters[0]);
  CHECK(*parse_model(to_text(*model), "m.json") == *model);
}

TEST_CASE("all errors of a file are reported at once, each with its line") {
  const std::string text = file_refusal(file_of(R"(
{"name": "a", "kind": "lineer", "out_features": 8},
{"name": "b", "kind": "linear", "out_featurs": 8},
{"name": "c", "kind": "linear", "out_features": -1, "bias": "yes"},
{"name": "d", "kind": "relu", "from": "nobody"},
{"name": "e", "kind": "conv2d", "from": "x", "out_channels": 3, "kernel": 3},
{"repeat": 9, "name": "block", "layers": []},
{"name": "f", "kind": "linear", "from": "e", "out_features": 8}
)"));
  CHECK(says(text, "m.json:5: layers[0].kind: unknown kind \"lineer\""));
  CHECK(says(text, "\"linear\""));
  CHECK(says(text, "m.json:6: layers[1]: missing key \"out_features\""));
  CHECK(says(text, "unknown key \"out_featurs\""));
  CHECK(says(text, "m.json:7: layers[2].out_features: \"out_features\" is -1"));
  CHECK(says(text, "m.json:7: layers[2].bias: \"bias\" must be true or false"));
  CHECK(says(text, "m.json:8: layers[3].from"));
  CHECK(says(text,
             "layer \"e\" (conv2d) needs an input of shape "
             "channelsxheightxwidth, not 8"));
  CHECK(says(text, "must contain {i}"));
  CHECK(says(text, "a block needs at least one layer"));
  CHECK_FALSE(text.find("layers[6]") != std::string::npos);
}

TEST_CASE("an error inside a repeated block is reported once") {
  const std::string text = file_refusal(file_of(
      R"({"repeat": 1000, "name": "b{i}", "layers": [
            {"name": "fc", "kind": "linear", "out_features": 0}]},
         {"name": "out", "kind": "linear", "from": "b999", "out_features": 3})" +
      std::string(kLoss)));
  CHECK(std::count(text.begin(), text.end(), '\n') == 0);
}

TEST_CASE("shapes that do not fit are named, both of them") {
  CHECK(says(file_refusal(file_of(
                 R"({"name": "a", "kind": "linear", "out_features": 4},
                   {"name": "b", "kind": "add", "from": ["a", "x"]})")),
             "layer \"b\" (add) adds inputs of different shapes, 4 and 8"));
  CHECK(says(file_refusal(file_of(
                 R"({"name": "a", "kind": "linear", "out_features": 4},
                   {"name": "b", "kind": "linear", "out_features": 4,
                    "share": {"weight": "a.weight"}})")),
             "needs a weight of shape 4x4, but \"a.weight\" has shape 4x8"));
  CHECK(says(file_refusal(file_of(
                 R"({"name": "l", "kind": "mse", "from": ["x", "target"]})")),
             "needs float32 numbers in input 1, which has int64 of shape 1"));
}

TEST_CASE("unused layers and inputs are rejected") {
  CHECK(
      says(file_refusal(file_of(
               R"({"name": "a", "kind": "relu"}, {"name": "b", "kind": "relu"},
                   {"name": "l", "kind": "cross_entropy",
                    "from": ["a", "target"]})")),
           "\"b\" is not used by any layer"));
  CHECK(says(file_refusal(file_of(R"({"name": "a", "kind": "relu"})")),
             "input \"target\" is not used by any layer"));
}

TEST_CASE("sizes are limited, so that no file takes the memory") {
  const auto block = [](const std::string& inside) {
    return R"({"repeat": 100000, "name": "b{i}", "layers": [)" + inside + "]}";
  };
  const std::string relu = R"({"name": "r", "kind": "relu"})";
  CHECK(says(file_refusal(file_of(block(relu) + ", " + relu)),
             "the limit of 100000 layers"));
  CHECK(says(file_refusal(file_of(block(block(block(relu))))),
             "the limit of 100000 layers"));
  CHECK(says(file_refusal(file_of(R"({"name": "a", "kind": "linear",
                                "out_features": 1073741824},
                   {"name": "b", "kind": "linear",
                    "out_features": 1073741824})")),
             "1073741824x1073741824"));
  CHECK(says(file_refusal(file_of(
                 R"({"repeat": 90000, "name": "b{i}", "layers": [
                     {"name": "a", "kind": "linear",
                      "out_features": 1000000}]})")),
             "makes the model larger than"));
  CHECK(says(file_refusal(std::string(9 << 20, ' ')), "the limit for"));
  std::string many;
  for (int i = 0; i < 1'000'000; ++i) many += "{i}";
  CHECK(says(file_refusal(file_of(R"({"repeat": 100000, "name": ")" + many +
                                  R"(", "layers": [)" + relu + "]}")),
             "is too long"));
}

TEST_CASE("damaged files are rejected") {
  const std::string good = to_text(*zoo_model("transformer:layers=2"));
  for (int part = 0; part < 64; ++part)
    CHECK_FALSE(parse_model(good.substr(0, good.size() * part / 64), "m").ok());
  unsigned state = 1;
  const auto random = [&](std::size_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    for (std::size_t n = random(3) + 1; n > 0; --n) {
      const std::size_t at = random(text.size());
      switch (random(3)) {
        case 0:
          text[at] = static_cast<char>(random(256));
          break;
        case 1:
          text.erase(at, random(20));
          break;
        default:
          text.insert(at, text.substr(random(text.size()), random(20)));
      }
    }
    auto model = parse_model(text, "m");
    if (model) {
      ++accepted;
      CHECK(*parse_model(to_text(*model), "m") == *model);
    } else {
      CHECK_FALSE(model.error().message.empty());
    }
  }
  CHECK(accepted < 2000);
}

}  // namespace pipewright
