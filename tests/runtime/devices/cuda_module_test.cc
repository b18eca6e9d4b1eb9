// On a GPU: a layer that wraps a torch::nn module trains as on cores, and to
// the same bits whatever the workers. Without one: skipped, with the reason.

#include <doctest/doctest.h>

#include <string>

#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/layers/own_linear.h"
#include "tests/runtime/test_models.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kSamples = 4, kAtOnce = 4;

Trained trained_module(const Model& model, const std::string& kind,
                       const std::string& schedule, int workers,
                       bool may_record) {
  TrainingSettings settings = settings_for_tests();
  settings.may_record = may_record;
  const Plan plan =
      plan_of(model, generated(schedule, workers, kAtOnce), kSamples);
  Executor executor(model, lower(plan, profile_of(model, kSamples)).value(),
                    settings, nullptr,
                    open_devices(std::vector<std::string>(
                                     static_cast<std::size_t>(workers), kind))
                        .value());
  for (const int steps : {2, 4, 3}) {
    const auto run = executor.run(random_source(model, kSamples), steps);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  }
  if (kind != "cpu" && may_record) CHECK(executor.why_not_recorded() == "");
  return executor.trained();
}

TEST_CASE("a module of torch trains on a GPU, its streams and its shares") {
  if (const auto found = find_devices({"cuda/4", "cuda/4", "cuda/4", "cuda/4"});
      !found) {
    testing::skip(found.error().to_text());
    return;
  }
  const Model model = perceptron(own_linear());
  const Trained core = trained_module(model, "cpu", "1f1b", 1, false);
  const Trained one = trained_module(model, "cuda", "1f1b", 1, false);
  for (std::size_t i = 0; i < core.parameters.size(); ++i)
    CHECK(at::allclose(core.parameters[i], one.parameters[i], 1e-3, 1e-4));
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"})
    for (const bool may_record : {false, true})
      for (const auto& [kind, workers] :
           {std::pair("cuda", 1), std::pair("cuda-stream", 4),
            std::pair("cuda/2", 2), std::pair("cuda/4", 4)}) {
        CAPTURE(schedule);
        CAPTURE(may_record);
        CAPTURE(kind);
        CHECK(is_identical(
            trained_module(model, kind, schedule, workers, may_record), one));
      }
}

}  // namespace
}  // namespace pipewright
