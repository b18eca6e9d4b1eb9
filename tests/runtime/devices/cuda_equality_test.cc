// On a GPU: bits are equal between schedules, numbers of workers, streams and
// shares of the GPU, for every kind of optimizer, with recomputation, replicas
// and asynchronous methods, and close to those of cores. Without one: skipped,
// with the reason.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "pipewright/model/zoo/zoo.h"
#include "pipewright/plan/program/repeated_steps.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/execution/async_cases.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kMicrobatches = 4;
constexpr int kSteps = 9;
const char* const kWithDropout =
    "gpt:layers=2,hidden=16,heads=2,vocab=11,seq=6,dropout=0.2,tied=false,"
    "fused_loss=true,type=float32";

// Whether this machine has what the test needs; says so if not.
bool has(const std::string& kind, int count) {
  const Result<void> found = find_devices(
      std::vector<std::string>(static_cast<std::size_t>(count), kind));
  if (!found) testing::skip(found.error().to_text());
  return found.ok();
}

const std::map<std::string, Model>& models() {
  static const std::map<std::string, Model> all = {
      {"mlp", small_mlp()},
      {"cnn", small_cnn()},
      {"gpt", small_gpt()},
      {"flash gpt", small_gpt(NumberType::BFloat16, true)},
      {"gpt with dropout", zoo_model(kWithDropout).value()},
      {"lstm", small_lstm()},
      {"exported images", exported_models().at("images")},
      {"exported language", exported_models().at("language")},
      {"exported mixed", exported_models().at("mixed")}};
  return all;
}

MicrobatchSource source_of(const Model& model) {
  return model.exported() ? exported_source(model, kMicrobatch)
                          : random_source(model, kMicrobatch);
}

TrainingSettings kernel_by_kernel(TrainingSettings settings) {
  settings.may_record = false;
  return settings;
}

// As graphs from the fifth step on, unless the settings or the plan say
// otherwise.
Trained trained_on(const std::string& kind, const Model& model,
                   const Plan& plan,
                   const TrainingSettings& settings = settings_for_tests()) {
  const Program program = lower(plan, profile_of(model, kMicrobatch)).value();
  Executor executor(
      model, program, settings, nullptr,
      open_devices(std::vector<std::string>(program.workers.size(), kind))
          .value());
  // The second and third run start from what the one before left.
  for (const int steps : {std::max(2, program.minibatches_outside), 4, 3}) {
    const Result<Executed> run = executor.run(source_of(model), steps);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  }
  CHECK(executor.num_values_held() == 0);
  if (kind != "cpu" && settings.may_record) {
    CHECK(executor.is_settled());
    CHECK((executor.why_not_recorded() == "") == repeats_steps(program));
  }
  return executor.trained();
}

Plan plan_for(const Model& model, const std::string& schedule, int workers) {
  return plan_of(model, generated(schedule, workers, kMicrobatches),
                 kMicrobatch);
}

const Trained& on_one_gpu(const std::string& name) {
  static std::map<std::string, Trained> known;
  const Model& model = models().at(name);
  if (!known.count(name))
    known[name] = trained_on("cuda", model, plan_for(model, "1f1b", 1),
                             kernel_by_kernel(settings_for_tests()));
  return known.at(name);
}

bool are_close(const Trained& a, const Trained& b) {
  const bool is_short = a.parameters[0].scalar_type() == at::kBFloat16;
  for (std::size_t i = 0; i < a.parameters.size(); ++i)
    if (!at::allclose(a.parameters[i], b.parameters[i], is_short ? 0.1 : 1e-3,
                      is_short ? 0.02 : 1e-4))
      return false;
  return true;
}

// A schedule on workers that share a GPU.
struct Placement {
  std::string kind;
  int workers;
  std::string schedule;
};
const std::vector<Placement> kPlacements = {{"cuda-stream", 2, "gpipe"},
                                            {"cuda-stream", 4, "zb-h1"},
                                            {"cuda/2", 2, "zb-h1"},
                                            {"cuda/4", 4, "1f1b"}};

void check_workers(const std::string& kind, int workers) {
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"})
    for (const auto& [name, model] : models()) {
      CAPTURE(kind);
      CAPTURE(schedule);
      CAPTURE(workers);
      CAPTURE(name);
      CHECK(is_identical(
          trained_on(kind, model, plan_for(model, schedule, workers)),
          on_one_gpu(name)));
    }
}

TEST_CASE("a GPU gives the same bits twice, close to those of a core") {
  if (!has("cuda", 1)) return;
  for (const auto& [name, model] : models()) {
    CAPTURE(name);
    const Plan plan = plan_for(model, "1f1b", 1);
    CHECK(is_identical(trained_on("cuda", model, plan), on_one_gpu(name)));
    CHECK(are_close(trained_on("cpu", model, plan), on_one_gpu(name)));
  }
}

TEST_CASE("streams of a GPU: schedules and workers do not change bits") {
  if (!has("cuda-stream", 4)) return;
  for (const int workers : {2, 4}) check_workers("cuda-stream", workers);
}

TEST_CASE("shares of a GPU: schedules and workers do not change bits") {
  if (!has("cuda/4", 4)) return;
  check_workers("cuda/2", 2);
  check_workers("cuda/4", 4);
}

TEST_CASE("Adam and AdamW: schedules, streams and shares do not change bits") {
  if (!has("cuda/4", 4)) return;
  for (const bool is_decoupled : {false, true})
    for (const std::string name : {"cnn", "flash gpt"}) {
      const Model& model = models().at(name);
      TrainingSettings settings = settings_for_tests();
      settings.optimizer =
          adam({.weight_decay = 1e-2, .decoupled = is_decoupled});
      settings.learning_rate = [](std::int64_t) { return 1e-3; };
      const Trained one = trained_on("cuda", model, plan_for(model, "1f1b", 1),
                                     kernel_by_kernel(settings));
      CHECK(!is_identical(one, on_one_gpu(name)));
      for (const Placement& place : kPlacements) {
        CAPTURE(is_decoupled);
        CAPTURE(name);
        CAPTURE(place.kind);
        CAPTURE(place.workers);
        CHECK(is_identical(
            trained_on(place.kind, model,
                       plan_for(model, place.schedule, place.workers),
                       settings),
            one));
      }
    }
}

TEST_CASE("recomputation on streams and shares of a GPU changes no bit") {
  if (!has("cuda/4", 4)) return;
  for (const std::string name : {"cnn", "flash gpt", "gpt with dropout"})
    for (const Placement& place : kPlacements) {
      CAPTURE(name);
      CAPTURE(place.kind);
      CAPTURE(place.workers);
      const Model& model = models().at(name);
      Plan plan = plan_for(model, place.schedule, place.workers);
      for (Stage& stage : plan.stages) stage.recompute = true;
      CHECK(
          is_identical(trained_on(place.kind, model, plan), on_one_gpu(name)));
    }
}

// Four stages have the same delays on any number of workers.
TEST_CASE("asynchronous methods: streams and shares do not change bits") {
  if (!has("cuda/4", 4)) return;
  for (const Method method : {Method::PipeMare, Method::Stash})
    for (const std::string name : {"mlp", "gpt"}) {
      const Model& model = models().at(name);
      const auto trained = [&](const std::string& kind, int workers) {
        return trained_on(kind, model,
                          async_plan(model, method, 4, workers, kMicrobatches),
                          async_settings());
      };
      const Trained one = trained("cuda", 1);
      CAPTURE(to_text(method));
      CAPTURE(name);
      CHECK(are_close(trained("cpu", 1), one));
      CHECK(!are_close(on_one_gpu(name), one));  // not synchronous training
      for (const Placement& place : kPlacements) {
        CAPTURE(place.kind);
        CAPTURE(place.workers);
        CHECK(is_identical(trained(place.kind, place.workers), one));
      }
    }
}

// Their sums are in another order than those of one worker.
TEST_CASE("replicas on streams and shares of a GPU have the same bits") {
  if (!has("cuda/4", 4)) return;
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    for (const std::string name : {"cnn", "gpt"})
      for (const int stages : {1, 2}) {
        CAPTURE(static_cast<int>(replication));
        CAPTURE(name);
        CAPTURE(stages);
        const Model& model = models().at(name);
        const Plan plan = plan_of(
            model,
            with_replicas(generated("1f1b", stages, kMicrobatches),
                          std::vector<int>(static_cast<std::size_t>(stages), 2),
                          replication)
                .value(),
            kMicrobatch);
        const Trained streams = trained_on("cuda-stream", model, plan);
        CHECK(are_close(trained_on("cpu", model, plan), streams));
        CHECK(is_identical(
            trained_on(stages == 1 ? "cuda/2" : "cuda/4", model, plan),
            streams));
      }
}

TEST_CASE("cores and a GPU in one plan train, and give the same bits twice") {
  if (!has("cuda", 1)) return;
  const Model model = small_gpt();
  const Program program =
      lower(plan_for(model, "1f1b", 2), profile_of(model, kMicrobatch)).value();
  std::vector<Trained> results;
  for (int i = 0; i < 2; ++i) {
    Executor executor(model, program, settings_for_tests(), nullptr,
                      open_devices({"cpu", "cuda"}).value());
    REQUIRE(executor.run(random_source(model, kMicrobatch), kSteps).ok());
    results.push_back(executor.trained());
  }
  CHECK(is_identical(results[0], results[1]));
}

}  // namespace
}  // namespace pipewright
