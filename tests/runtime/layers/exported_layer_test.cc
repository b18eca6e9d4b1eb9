// Exported models under the executor: equal bits between all plans, and what
// PyTorch computes. tests/python/make_fixtures.py writes the models.

#include <doctest/doctest.h>

#include <map>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/runtime/checkpoint/write_weights.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/layers/exported_weights.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/runtime/reference/sequential.h"
#include "pipewright/runtime/safetensors/safetensors.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kSamples = 4, kMicrobatchesOfStep = 4, kNumSteps = 3;
const Dataset& samples_of(const std::string& name) {
  static std::map<std::string, Dataset> known;
  if (!known.count(name)) {
    auto opened = open_dataset(
        "batches:" + kExportedFolder + name + "-samples.safetensors",
        exported_models().at(name));
    REQUIRE_MESSAGE(opened.ok(), (opened.ok() ? "" : opened.error().to_text()));
    known.emplace(name, *std::move(opened));
  }
  return known.at(name);
}

MicrobatchSource source_of(const std::string& name) {
  return microbatches_of(samples_of(name), {1, kSamples});
}

TrainingSettings plain_settings() {
  TrainingSettings settings = settings_for_tests();
  settings.optimizer = sgd({0, 0, false});
  return settings;
}

const Trained& sequential(const std::string& name) {
  static std::map<std::string, Trained> known;
  if (!known.count(name))
    known[name] = train_sequentially(
        exported_models().at(name), plain_settings(), source_of(name),
        {kMicrobatchesOfStep, kSamples}, kNumSteps);
  return known.at(name);
}

// The executor's bits equal the interpreter's and, where asked, those of
// sequential training.
void check_plan_of(const std::string& name, const Plan& plan,
                   bool equals_sequential, int num_steps = kNumSteps) {
  const Model& model = exported_models().at(name);
  const Result<Program> program = lower(plan, profile_of(model, kSamples));
  REQUIRE_MESSAGE(program.ok(),
                  (program.ok() ? "" : program.error().to_text()));
  Executor executor(model, *program, plain_settings());
  const MicrobatchSource source = source_of(name);
  const Result<Executed> run = executor.run(source, num_steps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  CHECK(executor.num_values_held() == 0);
  const Result<Trained> expected =
      interpret(model, *program, plain_settings(), source, num_steps);
  REQUIRE(expected.ok());
  CHECK(is_identical(executor.trained(), *expected));
  if (equals_sequential)
    CHECK(is_identical(executor.trained(), sequential(name)));
}

NamedTensors read_tensors(const std::string& file) {
  return parse_safetensors(read_file(file).value(), file).value();
}

TEST_CASE("losses and weights are PyTorch's") {
  for (const std::string name : {"mixed", "recurrent", "images"}) {
    const Model& model = exported_models().at(name);
    CAPTURE(name);
    const NamedTensors expected =
        read_tensors(kExportedFolder + name + "-expected.safetensors");
    const Trained& trained = sequential(name);
    const at::Tensor losses = expected.at("losses");
    REQUIRE(losses.numel() == static_cast<std::int64_t>(trained.losses.size()));
    for (std::size_t i = 0; i < trained.losses.size(); ++i)
      CHECK(trained.losses[i] ==
            doctest::Approx(losses[static_cast<std::int64_t>(i)].item<double>())
                .epsilon(1e-6));
    int equal = 0;
    for (std::size_t p = 0; p < model.parameters().size(); ++p) {
      const at::Tensor& after =
          expected.at("after/" + model.parameters()[p].name);
      equal += trained.parameters[p].equal(after);
      CHECK_MESSAGE(at::allclose(trained.parameters[p], after, 1e-6, 1e-7),
                    model.parameters()[p].name);
    }
    MESSAGE(name, ": ", equal, " of ", model.parameters().size(),
            " parameters have PyTorch's bits after ", kNumSteps, " steps");
    const auto& layers = model.exported()->layers;
    for (std::size_t l = 0; l < layers.size(); ++l)
      for (std::size_t b = 0; b < layers[l].buffers.size(); ++b)
        CHECK(at::allclose(trained.statistics[l][b],
                           expected.at("after/" + layers[l].buffers[b]), 1e-6,
                           1e-7));
  }
}

TEST_CASE("every synchronous schedule gives the same bits") {
  int cases = 0;
  for (const ScheduleGenerator& generator : schedule_generators())
    for (const int workers : {1, 2, 3, 4}) {
      const Result<Schedule> schedule =
          generated_if_possible(generator.name, workers, kMicrobatchesOfStep);
      if (!schedule || schedule->is_asynchronous()) continue;
      for (const auto& [name, model] : exported_models()) {
        if (schedule->num_stages() > model.num_layers()) continue;
        CAPTURE(generator.name);
        CAPTURE(workers);
        CAPTURE(name);
        // Chimera sums a stage's gradients on two workers.
        const Plan plan = plan_of(model, *schedule, kSamples);
        bool is_single = true;
        for (const Stage& stage : plan.stages)
          is_single = is_single && stage.workers.size() == 1;
        check_plan_of(name, plan, is_single);
        ++cases;
      }
    }
  MESSAGE(cases, " cases");
  CHECK(cases > 60);
}

TEST_CASE("recomputation changes no bit, random masks included") {
  for (const std::string generator : {"gpipe", "1f1b", "zb-h1"})
    for (const auto& [name, model] : exported_models()) {
      Plan plan = plan_of(model, generated(generator, 2, kMicrobatchesOfStep),
                          kSamples);
      for (Stage& stage : plan.stages) stage.recompute = true;
      CAPTURE(generator);
      CAPTURE(name);
      check_plan_of(name, plan, true);
    }
}

TEST_CASE("replicas equal the interpreter of the same program") {
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    for (const std::vector<int>& replicas :
         {std::vector<int>{2, 1}, {1, 2}, {2, 2}})
      for (const auto& [name, model] : exported_models()) {
        const Result<Schedule> schedule = with_replicas(
            generated("1f1b", 2, kMicrobatchesOfStep), replicas, replication);
        REQUIRE(schedule.ok());
        CAPTURE(static_cast<int>(replication));
        CAPTURE(replicas[0]);
        CAPTURE(replicas[1]);
        CAPTURE(name);
        check_plan_of(name, plan_of(model, *schedule, kSamples), false);
      }
}

// The delays of asynchronous training, PipeMare's corrected weights among them.
TEST_CASE("asynchronous methods equal the interpreter") {
  int cases = 0;
  for (const Method method : {Method::PipeMare, Method::Naive, Method::Stash,
                              Method::TwoBw, Method::VerticalSync})
    for (const int workers : {2, 4})
      for (const auto& [name, model] : exported_models()) {
        if (workers > model.num_layers()) continue;
        CAPTURE(to_text(method));
        CAPTURE(workers);
        CAPTURE(name);
        check_plan_of(
            name,
            plan_of(model,
                    generated("async-1f1b", workers, kMicrobatchesOfStep),
                    kSamples, method),
            false, 8);
        ++cases;
      }
  CHECK(cases == 40);
}

TEST_CASE("forward and backward cut at different places") {
  for (const auto& [name, model] : exported_models()) {
    const int layers = model.num_layers();
    const Plan whole =
        plan_of(model, generated("1f1b", 2, kMicrobatchesOfStep), kSamples);
    for (int forward = 1; forward < layers - 1; forward += 2)
      for (int backward = 1; backward < layers - 1; backward += 2) {
        Plan plan = whole;
        for (Stage& stage : plan.stages) {
          stage.forward.clear();
          stage.backward.clear();
        }
        for (int l = 0; l < layers; ++l) {
          plan.stages[l < forward ? 0 : 1].forward.push_back(LayerId(l));
          plan.stages[l < backward ? 0 : 1].backward.push_back(LayerId(l));
        }
        CAPTURE(name);
        CAPTURE(forward);
        CAPTURE(backward);
        check_plan_of(name, plan, true);
      }
  }
}

TEST_CASE("weights are written under the module's names and read again") {
  const Model& model = exported_models().at("language");
  TrainingState state;
  state.parameters = sequential("language").parameters;
  state.statistics = sequential("language").statistics;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "pipewright-weights.safetensors";
  REQUIRE(write_weights(file, model, state).ok());
  const NamedTensors written = read_tensors(file.string());
  CHECK(written.at("head.weight").equal(written.at("embed.weight")));
  const Model again = with_weights(model, file.string());
  CHECK(check_exported(again).ok());
  for (std::size_t p = 0; p < model.parameters().size(); ++p)
    CHECK(exported_parameter(again, ParameterId(p)).equal(state.parameters[p]));
  std::filesystem::remove(file);
  const auto missing = check_exported(again);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().code == ErrorCode::MissingInput);
}

}  // namespace
}  // namespace pipewright
