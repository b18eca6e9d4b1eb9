// Training a model with split layers against the whole one: the same initial
// weights, the same losses and weights within rounding; and cut between the
// parts, the executor equals the interpreter bit for bit.

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "pipewright/model/split_layers.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/runtime/reference/sequential.h"
#include "pipewright/runtime/training/initial_parameters.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kMicrobatches = 4;
constexpr int kSteps = 5;

// With the layers that are split, in each.
const std::map<std::string, std::string> kSplits = {
    {"mlp:layers=3,hidden=48,features=24", "hidden1.linear@17+output@3"},
    {"lenet", "conv2@5+fc1@100"},
    {"lenet:image=20", "conv2@5+conv2.part1@4"}};

Model split_model(const std::string& name, const std::string& type) {
  const bool has_settings = name.find(':') != std::string::npos;
  return load_model(name + (has_settings ? "," : ":") + "type=" + type +
                    ",split=" + kSplits.at(name))
      .value();
}
Model whole_model(const std::string& name, const std::string& type) {
  const bool has_settings = name.find(':') != std::string::npos;
  return load_model(name + (has_settings ? "," : ":") + "type=" + type).value();
}

// The parameters of the whole model, put together from parts.
Tensors assembled(const Model& whole, const Model& split,
                  const Tensors& parameters) {
  Tensors result;
  for (const Parameter& parameter : whole.parameters()) {
    std::vector<at::Tensor> rows;
    const std::size_t dot = parameter.name.rfind('.');
    const std::string layer = parameter.name.substr(0, dot);
    const std::string role = parameter.name.substr(dot);
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::string& name = split.parameters()[p].name;
      if (name == parameter.name ||
          (name.starts_with(layer + ".part") && name.ends_with(role)))
        rows.push_back(parameters[p]);
    }
    REQUIRE(!rows.empty());
    result.push_back(at::cat(rows));
  }
  return result;
}

Trained trained_alone(const Model& model) {
  return train_sequentially(model, settings_for_tests(),
                            random_source(model, kMicrobatch),
                            {kMicrobatches, kMicrobatch}, kSteps);
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST_CASE("parts begin with the weights of the whole layer, bit for bit") {
  for (const auto& [name, splits] : kSplits) {
    CAPTURE(name);
    const Model whole = whole_model(name, "float32");
    const Model split = split_model(name, "float32");
    CHECK(split.num_layers() == whole.num_layers() + 4);
    const Tensors expected = initial_parameters(whole, 9);
    const Tensors parts = assembled(whole, split, initial_parameters(split, 9));
    for (std::size_t p = 0; p < expected.size(); ++p)
      CHECK(at::equal(expected[p], parts[p]));
  }
}

// In float64 a difference that is not rounding would be seen.
TEST_CASE("training with split layers is training, within rounding") {
  const SingleThreaded alone;
  for (const auto& [type, tolerance] :
       {std::pair{"float64", 1e-13}, std::pair{"float32", 2e-5}})
    for (const auto& [name, splits] : kSplits) {
      CAPTURE(name);
      CAPTURE(type);
      const Model whole = whole_model(name, type);
      const Model split = split_model(name, type);
      const Trained expected = trained_alone(whole);
      const Trained found = trained_alone(split);
      REQUIRE(found.losses.size() == expected.losses.size());
      for (std::size_t i = 0; i < found.losses.size(); ++i)
        CHECK(std::abs(found.losses[i] - expected.losses[i]) <= tolerance);
      const Tensors parameters = assembled(whole, split, found.parameters);
      for (std::size_t p = 0; p < parameters.size(); ++p)
        CHECK(largest_difference(parameters[p], expected.parameters[p]) <=
              tolerance);
      CHECK(expected.losses.front() != expected.losses.back());
    }
}

TEST_CASE("cut between the parts: the executor equals the interpreter") {
  int cut_between = 0;
  for (const auto& [name, splits] : kSplits)
    for (const std::string schedule : {"1f1b", "gpipe", "zb-h1"})
      for (const int workers : {2, 3}) {
        CAPTURE(name);
        CAPTURE(schedule);
        const Model model = split_model(name, "float32");
        Plan plan = plan_of(model, generated(schedule, workers, kMicrobatches),
                            kMicrobatch);
        // The first stage ends between two parts.
        for (int l = 1; l < model.num_layers(); ++l)
          if (model.layer(LayerId(l)).name.ends_with(".part1") &&
              plan.num_stages() == 2) {
            plan.stages = stages_of_cuts({l}, model.num_layers());
            ++cut_between;
            break;
          }
        const auto program = lower(plan, profile_of(model, kMicrobatch));
        REQUIRE(program);
        const MicrobatchSource source = random_source(model, kMicrobatch);
        const TrainingSettings settings = settings_for_tests();
        Executor executor(model, *program, settings);
        REQUIRE(executor.run(source, kSteps));
        CHECK(executor.num_values_held() == 0);
        const auto expected =
            interpret(model, *program, settings, source, kSteps);
        REQUIRE(expected);
        CHECK(is_identical(executor.trained(), *expected));
        CHECK(is_identical(executor.trained(), trained_alone(model)));
      }
  CHECK(cut_between == 9);
}

}  // namespace
}  // namespace pipewright
