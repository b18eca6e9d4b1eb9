// Layers in two parts: the model that comes of it, its name, and what cannot be
// split.

#include "pipewright/model/split_layers.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/model/model_file.h"
#include "pipewright/model/zoo/zoo.h"

namespace pipewright {
namespace {

Model model_named(const std::string& text) {
  auto made = load_model(text);
  REQUIRE_MESSAGE(made.ok(), (made.ok() ? "" : made.error().to_text()));
  return *std::move(made);
}

std::string refusal(const std::string& text) {
  const auto made = load_model(text);
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().code == ErrorCode::BadConfiguration);
  return made.error().to_text();
}

double forward_flops(const Model& model) {
  double sum = 0;
  for (int l = 0; l < model.num_layers(); ++l)
    sum += layer_cost(model, LayerId(l)).forward.value();
  return sum;
}

TEST_CASE("a linear is two parts and a join, with the same work and weights") {
  const Model whole = model_named("mlp:layers=2,hidden=32,features=8");
  const Model split =
      model_named("mlp:layers=2,hidden=32,features=8,split=hidden1.linear@20");
  CHECK(split.name() ==
        "mlp:layers=2,hidden=32,features=8,"
        "split=hidden1.linear@20");
  REQUIRE(split.num_layers() == whole.num_layers() + 2);
  const Layer& first = split.layer(LayerId(2));
  const Layer& second = split.layer(LayerId(3));
  const Layer& joined = split.layer(LayerId(4));
  CHECK(first.name == "hidden1.linear.part0");
  CHECK(second.name == "hidden1.linear.part1");
  CHECK(joined.name == "hidden1.linear");
  CHECK(first.output == Shape{20});
  CHECK(second.output == Shape{12});
  CHECK(first.inputs == second.inputs);
  CHECK(joined.kind == LayerKind::Concat);
  CHECK(joined.output == Shape{32});
  CHECK(split.layer(LayerId(5)).inputs[0].layer == LayerId(4));
  CHECK(split.num_parameters() == whole.num_parameters());
  CHECK(forward_flops(split) == forward_flops(whole));
}

TEST_CASE("channels of a convolution, features of a sequence, a part again") {
  const Model image = model_named("lenet:split=conv2@5+fc1@100");
  CHECK(image.num_parameters() == model_named("lenet").num_parameters());
  const Model twice = model_named("lenet:split=conv2@5+conv2.part1@4");
  CHECK(twice.num_parameters() == model_named("lenet").num_parameters());
  int found = 0;
  for (const Layer& layer : twice.layers()) {
    if (layer.name == "conv2.part1.part1") {
      ++found;
      CHECK(text(layer.attributes, "part_of") == "conv2");
      CHECK(integer(layer.attributes, "first_output") == 9);
      CHECK(num_outputs(layer) == 7);
    }
    if (layer.name == "conv2") CHECK(layer.output == Shape{16, 10, 10});
  }
  CHECK(found == 1);
  const Model gpt = model_named("gpt:layers=1,hidden=8,heads=2,vocab=16,seq=8");
  int checked = 0;
  for (int l = 0; l < gpt.num_layers(); ++l) {
    if (!why_not_split(gpt, LayerId(l)).empty()) continue;
    const auto split = with_splits(gpt, {{gpt.layer(LayerId(l)).name, 3}});
    REQUIRE(split);
    CHECK(split->num_parameters() == gpt.num_parameters());
    CHECK(split->layer(LayerId(l + 2)).output == gpt.layer(LayerId(l)).output);
    ++checked;
  }
  CHECK(checked >= 2);
}

TEST_CASE("every layer of the zoo that can be split, can") {
  for (const char* name : {"alexnet", "resnet18", "squeezenet", "gnmt",
                           "transformer", "bert-base:layers=1"}) {
    const Model whole = model_named(name);
    for (int l = 0; l < whole.num_layers(); ++l) {
      if (!why_not_split(whole, LayerId(l)).empty()) continue;
      const Layer& layer = whole.layer(LayerId(l));
      CAPTURE(layer.name);
      const auto split =
          with_splits(whole, {{layer.name, num_outputs(layer) / 2}});
      REQUIRE(split);
      CHECK(split->num_parameters() == whole.num_parameters());
      CHECK(split->layers().back().output == whole.layers().back().output);
    }
  }
}

TEST_CASE("a split model as a file is the same model") {
  const Model split = model_named("lenet:split=conv1@2+fc2@40");
  const auto again = parse_model(to_text(split), "split.json");
  REQUIRE(again);
  CHECK(*again == split);
}

// A model of the zoo as a file of one's own.
class SplitModelFile {
 public:
  SplitModelFile(const std::string& zoo_name, const std::string& end)
      : path_((std::filesystem::temp_directory_path() /
               ("pipewright_split_" + std::to_string(::getpid()) + end))
                  .string()) {
    REQUIRE(write_file(path_, to_text(model_named(zoo_name))));
  }
  ~SplitModelFile() { std::filesystem::remove(path_); }
  SplitModelFile(const SplitModelFile&) = delete;
  SplitModelFile& operator=(const SplitModelFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_CASE("layers of a model file are split as those of the zoo are") {
  const std::string splits = "split=conv2@5+conv2.part1@4+fc1@100";
  for (const char* end : {".json", ".model", ":a.json", ".json:b"}) {
    CAPTURE(end);
    const SplitModelFile file("lenet", end);
    const Model split = model_named(file.path() + ":" + splits);
    const Model zoo = model_named("lenet:" + splits);
    CHECK(split.layers() == zoo.layers());
    CHECK(split.parameters() == zoo.parameters());
    CHECK(split.name() == "lenet");
    CHECK(model_named(file.path()).layers() == model_named("lenet").layers());
  }
}

TEST_CASE("what cannot be split in a file is refused with the reason") {
  const SplitModelFile file("lenet", ".json");
  const auto says = [&](const std::string& settings, const std::string& text) {
    const std::string said = refusal(file.path() + settings);
    INFO(said);
    CHECK(said.find(text) != std::string::npos);
    CHECK(said.find(file.path() + ": ") != std::string::npos);
  };
  says(":split=conv2", "expected LAYER@OUTPUTS, found \"conv2\"");
  says(":split=conv9@4", "did you mean \"conv1\"?");
  says(":image=20", "expected split=LAYER@OUTPUTS after the colon");
  says(":", "expected split=LAYER@OUTPUTS after the colon");
  CHECK(load_model("none.json:split=a@1").error().code ==
        ErrorCode::MissingInput);
  const std::string exported =
      PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/exported/tiny.json";
  const Model tiny = model_named(exported);
  const std::string name = tiny.layer(LayerId(0)).name;
  CHECK(refusal(exported + ":split=" + name + "@1")
            .find("layer \"" + name + "\" cannot be split: it is exported") !=
        std::string::npos);
  CHECK(refusal(exported + ":split=nothing@1")
            .find("layers of an exported model stay whole") !=
        std::string::npos);
}

TEST_CASE("texts of models get more splits") {
  CHECK(with_splits("mlp", {{"output", 4}}) == "mlp:split=output@4");
  CHECK(with_splits("mlp:hidden=8", {{"output", 4}}) ==
        "mlp:hidden=8,split=output@4");
  CHECK(with_splits("mlp:split=output@4,hidden=8", {{"a", 1}, {"b", 2}}) ==
        "mlp:split=output@4+a@1+b@2,hidden=8");
  CHECK(with_splits("mlp", {}) == "mlp");
  CHECK(with_splits("a/b.json", {{"fc", 4}}) == "a/b.json:split=fc@4");
  CHECK(with_splits("a:b/c.json", {{"fc", 4}}) == "a:b/c.json:split=fc@4");
  CHECK(with_splits("b.json:split=fc@4", {{"a", 1}}) ==
        "b.json:split=fc@4+a@1");
  const auto splits = parse_splits("fc@24+conv.part1@8");
  REQUIRE(splits);
  CHECK(to_text(*splits) == "fc@24+conv.part1@8");
}

TEST_CASE("what cannot be split is refused with the reason") {
  CHECK(refusal("mlp:split=output").find("expected LAYER@OUTPUTS") !=
        std::string::npos);
  CHECK(refusal("mlp:split=outptu@4").find("output") != std::string::npos);
  CHECK(refusal("mlp:split=output@10").find("1 to 9") != std::string::npos);
  CHECK(refusal("mlp:split=output@4+output@2").find("it is a concat") !=
        std::string::npos);
  CHECK(refusal("mlp:split=output@4+output.part2@2").find("output.part") !=
        std::string::npos);
  CHECK(refusal("mlp:split=output@0").find("it has 10") != std::string::npos);
  CHECK(refusal("mlp:split=hidden0.relu@4").find("it is a relu") !=
        std::string::npos);
  // GPT-2's output shares its weight with the embedding.
  CHECK(refusal("gpt2:split=head@4").find("shares a parameter") !=
        std::string::npos);
}

}  // namespace
}  // namespace pipewright
