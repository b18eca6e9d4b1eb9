// The zoo against published figures, and its names and settings.

#include "pipewright/model/zoo/zoo.h"

#include <doctest/doctest.h>

#include <set>

#include "pipewright/model/cuts.h"
#include "pipewright/model/model_file.h"

namespace pipewright {
namespace {

Model model(const std::string& text) {
  auto made = load_model(text);
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().to_text()));
  return *std::move(made);
}

double forward_gflop(const Model& made) {
  double total = 0;
  for (LayerId layer : model_order(made))
    total += layer_cost(made, layer).forward.value();
  return total / 1e9;
}

}  // namespace

TEST_CASE("trainable parameters are as published") {
  const std::vector<std::pair<std::string, std::int64_t>> published = {
      {"alexnet", 61'100'840},
      {"vgg11", 132'863'336},
      {"vgg13", 133'047'848},
      {"vgg16", 138'357'544},
      {"vgg19", 143'667'240},
      {"vgg16:batch_norm=true", 138'365'992},
      {"resnet18", 11'689'512},
      {"resnet34", 21'797'672},
      {"resnet50", 25'557'032},
      {"resnet101", 44'549'160},
      {"resnet152", 60'192'808},
      {"squeezenet", 1'248'424},
      {"squeezenet1_0", 1'248'424},
      {"densenet121", 7'978'856},
      {"inception_v3", 23'834'568},
      {"bert-base", 109'482'240},
      {"bert-large", 335'141'888},
      {"gpt2", 124'439'808},
      {"gpt2-medium", 354'823'168},
      {"gpt2-large", 774'030'080},
      {"gpt2-xl", 1'557'611'200},
      // PipeDream's profile of it has 775,063,808 bytes, of which the additive
      // attention score, which ours does not have, takes 1024 numbers.
      {"gnmt", 775'063'808 / 4 - 1024},
      // 5 convolutional and linear layers, from their shapes.
      {"lenet", 61'706},
      {"mlp:layers=1,hidden=100,features=64,classes=10",
       64 * 100 + 100 + 100 * 10 + 10},
  };
  for (const auto& [name, parameters] : published)
    CHECK_MESSAGE(model(name).num_parameters() == parameters, name);
}

TEST_CASE("parameters that no publication states follow from the shapes") {
  // A block of width h and inner width 4h; embedding, head and positions.
  const std::int64_t h = 512, inner = 4 * h, vocab = 37000;
  const std::int64_t attention = 4 * (h * h + h), norm = 2 * h;
  const std::int64_t feed = 2 * h * inner + inner + h;
  const std::int64_t encoder = attention + feed + 2 * norm;
  const std::int64_t decoder = 2 * attention + feed + 3 * norm;
  CHECK(model("transformer").num_parameters() ==
        vocab * h + 6 * encoder + 6 * decoder);
  CHECK(model("transformer:tied=false").num_parameters() ==
        3 * vocab * h + 6 * encoder + 6 * decoder);
}

// Multiplications and additions apart: twice the published multiply-adds
// (torchvision's table of GFLOPS), and a little for all that is not a product.
TEST_CASE("forward FLOPs are near the published multiply-adds") {
  const std::vector<std::pair<std::string, double>> published = {
      {"alexnet", 0.71},     {"vgg11", 7.61},        {"vgg16", 15.47},
      {"resnet18", 1.81},    {"resnet50", 4.09},     {"resnet152", 11.51},
      {"densenet121", 2.83}, {"inception_v3", 5.71}, {"squeezenet", 0.82},
  };
  for (const auto& [name, gmac] : published) {
    const double ratio = forward_gflop(model(name)) / (2 * gmac);
    CHECK_MESSAGE(ratio > 0.98, name);
    CHECK_MESSAGE(ratio < 1.05, name);
  }
}

TEST_CASE("a known shape in the middle of each image model") {
  const auto output = [](const Model& made, const std::string& name) {
    for (const Layer& layer : made.layers())
      if (layer.name == name) return to_text(layer.output);
    return std::string("no such layer");
  };
  CHECK(output(model("alexnet"), "pool5") == "256x6x6");
  CHECK(output(model("vgg16"), "pool5") == "512x7x7");
  CHECK(output(model("resnet50"), "step4.block2.relu") == "2048x7x7");
  CHECK(output(model("squeezenet"), "fire9.concat") == "512x13x13");
  CHECK(output(model("densenet121"), "block4.layer15.concat") == "1024x7x7");
  CHECK(output(model("inception_v3"), "mixed3.concat") == "288x35x35");
  CHECK(output(model("inception_v3"), "mixed11.concat") == "2048x8x8");
  CHECK(output(model("lenet"), "flatten") == "400");
}

TEST_CASE("every entry ends in its loss against its target") {
  std::set<std::string> names;
  for (const ZooEntry& entry : zoo()) {
    CHECK_MESSAGE(names.insert(entry.name).second, entry.name);
    const Model made = model(entry.name);
    CHECK(made.name() == entry.name);
    const LayerKind last = made.layers().back().kind;
    CHECK((last == LayerKind::CrossEntropy || last == LayerKind::Mse));
    CHECK(made.inputs().back().name == "target");
    CHECK(made.layers().back().inputs.back().is_model_input());
    CHECK(made.layers().back().output.empty());
  }
}

TEST_CASE("tied weights are one parameter of two layers") {
  const Model tied = model("gpt2");
  const Layer& head = tied.layers()[tied.layers().size() - 2];
  CHECK(head.name == "head");
  CHECK(head.parameters == tied.layers().front().parameters);
  CHECK(model("gpt2:tied=false").num_parameters() ==
        tied.num_parameters() + 50257 * 768);
}

TEST_CASE("settings change the model, and its name says which") {
  const Model made = model("gpt:hidden=64,layers=2,heads=4,vocab=100,seq=16");
  CHECK(made.name() == "gpt:layers=2,hidden=64,heads=4,vocab=100,seq=16");
  CHECK(made.inputs()[0].shape == Shape{16});
  CHECK(model(made.name()) == made);
  // The table of positions stays that of the published model.
  CHECK(model("gpt2:seq=128").num_parameters() == 124'439'808);
  CHECK(model("bert-base:type=float16").parameters()[0].type ==
        NumberType::Float16);
  const int with = model("vgg16").num_layers();
  CHECK(model("vgg16:dropout=0").num_layers() == with - 2);
}

TEST_CASE("a wrong name or setting is refused with the nearest") {
  const auto refused = [](const std::string& text) {
    auto made = load_model(text);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().code == ErrorCode::BadConfiguration);
    return made.error().to_text();
  };
  CHECK(refused("vgg17").find("vgg") != std::string::npos);
  CHECK(refused("resnet").find("resnet18") != std::string::npos);
  CHECK(refused("gpt:layer=3").find("\"layers\"") != std::string::npos);
  CHECK(refused("gpt:layers").find("key=value") != std::string::npos);
  CHECK(refused("gpt:layers=0").find("between 1 and") != std::string::npos);
  CHECK(refused("gpt:layers=2,layers=3").find("duplicate") !=
        std::string::npos);
  CHECK(refused("gpt:heads=7").find("768") != std::string::npos);
  CHECK(refused("gpt2:seq=2048").find("2048x768") != std::string::npos);
  CHECK(refused("vgg16:image=8").find("does not fit") != std::string::npos);
  CHECK(refused("gpt:layers=5000,hidden=1048576,heads=1,seq=1048576").size());
  CHECK(refused("").size());
  CHECK(refused(":").size());
  CHECK(refused("gpt:").size());
  CHECK(load_model("none/such.json").error().code == ErrorCode::MissingInput);
}

}  // namespace pipewright
