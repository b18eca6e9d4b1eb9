// On a GPU: bits are equal between schedules, numbers of workers, streams and
// shares of the GPU, and close to those of cores. Without one: skipped, with
// the reason.

#include <doctest/doctest.h>

#include <iostream>
#include <map>
#include <string>

#include "pipewright/model/zoo/zoo.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"

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
  if (!found) std::cout << "skipped: " << found.error().to_text() << std::endl;
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

// Kernel by kernel, or as graphs from the fifth step on.
Trained trained_on(const std::string& kind, const Model& model,
                   const Plan& plan, bool may_record = true) {
  const Program program = lower(plan, profile_of(model, kMicrobatch)).value();
  TrainingSettings settings = settings_for_tests();
  settings.may_record = may_record;
  Executor executor(
      model, program, settings, nullptr,
      open_devices(std::vector<std::string>(program.workers.size(), kind))
          .value());
  // The second and third run start from what the one before left.
  for (const int steps : {2, 4, kSteps - 6}) {
    const Result<Executed> run = executor.run(source_of(model), steps);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  }
  CHECK(executor.num_values_held() == 0);
  if (kind != "cpu" && may_record) {
    CHECK(executor.is_settled());
    if (program.reductions.empty()) CHECK(executor.why_not_recorded() == "");
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
    known[name] = trained_on("cuda", model, plan_for(model, "1f1b", 1), false);
  return known.at(name);
}

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
    const Trained cores = trained_on("cpu", model, plan);
    const bool is_short = cores.parameters[0].scalar_type() == at::kBFloat16;
    for (std::size_t i = 0; i < cores.parameters.size(); ++i)
      CHECK(at::allclose(cores.parameters[i], on_one_gpu(name).parameters[i],
                         is_short ? 0.1 : 1e-3, is_short ? 0.02 : 1e-4));
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
