// Asynchronous methods in a whole run: a synchronous warm-up that turns
// asynchronous, drains for checkpoints, and resuming to the same bits.

#include <atomic>
#include <fstream>
#include <sstream>

#include "pipewright/runtime/reference/sequential.h"
#include "pipewright/runtime/training/trainer.h"
#include "tests/cli/train/train_cases.h"
#include "tests/runtime/execution/async_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TEST_CASE("a drained plan is synchronous training") {
  for (const auto& [name, model] : async_models()) {
    CAPTURE(name);
    const Plan plan =
        drained(async_plan(model, Method::PipeMare, 5, 2, 4)).value();
    CHECK(plan.method == Method::Sync);
    const TrainingSettings settings = settings_for_tests();
    const MicrobatchSource source = random_source(model, 4);
    CHECK(is_identical(executed(model, lowered(model, plan), settings, 4),
                       train_sequentially(model, settings, source, {4, 4}, 4)));
  }
}

TEST_CASE("warm-up, then asynchronous: equals the delay model") {
  for (const auto& [name, model] : async_models())
    for (const Method method : {Method::PipeMare, Method::Stash}) {
      CAPTURE(name);
      CAPTURE(to_text(method));
      const Plan plan = async_plan(model, method, 4, 2, 2);
      const Program program = lowered(model, plan);
      const Program warm_up =
          warm_up_program(plan, profile_of(model, 4), program).value();
      TrainingSettings settings = async_settings();
      settings.rescheduling_start = 5;
      const MicrobatchSource source = random_source(model, 4);
      Executor first(model, warm_up, settings);
      REQUIRE(first.run(source, 5).ok());
      Executor second(model, program, settings);
      second.resume(first.state());
      REQUIRE(second.run(source, 8).ok());

      DelayModel reference(model, delayed_pipeline(model, plan), settings,
                           source);
      reference.run(5, Method::Sync);
      reference.run(8);
      Trained done = second.trained();
      done.losses.insert(done.losses.begin(), first.trained().losses.begin(),
                         first.trained().losses.end());
      CHECK(is_identical(done, reference.trained()));
    }
}

std::string all_bytes(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::ostringstream text;
  for (const fs::path& file : files)
    text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

TrainRequest request_of(const Model& model, Method method,
                        const fs::path& run) {
  TrainRequest request;
  request.plan = async_plan(model, method, 4, 2, 4);
  request.program = lowered(model, request.plan);
  request.data = "synthetic:64";
  request.run = run;
  request.steps = 16;
  request.seed = 5;
  request.rate.rate = 0.02;
  request.checkpoint_every = 8;
  request.method.rescheduling_steps = 9;
  request.method.warm_up_steps = 3;
  request.method.warm_up =
      warm_up_program(request.plan, profile_of(model, 4), request.program)
          .value();
  return request;
}

// The checkpoint in the middle drains the pipeline, in both runs.
TEST_CASE("resuming half-way changes no bit, for every method") {
  const TemporaryFolder folder("async-resume");
  for (const std::string name : {"cnn", "gpt"})
    for (const Method method : kMethods) {
      if (!is_asynchronous(method)) continue;
      CAPTURE(name);
      CAPTURE(to_text(method));
      const Model& model = async_models().at(name);
      const fs::path at = folder.path() / (name + to_text(method));
      const TrainRequest whole = request_of(model, method, at / "whole");
      REQUIRE(train(model, whole).ok());
      TrainRequest part = request_of(model, method, at / "parts");
      for (const int steps : {8, 16}) {
        part.steps = steps;
        part.resume = steps > 8;
        const Result<TrainReport> report = train(model, part);
        REQUIRE_MESSAGE(report.ok(),
                        (report.ok() ? "" : report.error().to_text()));
      }
      CHECK(all_bytes(whole.run / "checkpoints" / "step-16") ==
            all_bytes(part.run / "checkpoints" / "step-16"));
    }
}

// A piece may have 1000 steps: it is not waited for.
TEST_CASE("a signal ends an asynchronous run after the steps in progress") {
  const Model model = async_models().begin()->second;
  for (const Method method : {Method::PipeMare, Method::Stash}) {
    CAPTURE(to_text(method));
    const TemporaryFolder early("early"), whole("whole");
    TrainRequest request = request_of(model, method, early.path());
    request.method.rescheduling_steps = 8;
    request.steps = 900;
    std::atomic<std::int64_t> reported = 0;
    TrainHooks hooks;
    hooks.on_step = [&reported](const StepReport& step) {
      CHECK(step.step == reported + 1);
      reported = step.step;
    };
    hooks.signal = [&reported] { return reported >= 20 ? 15 : 0; };
    const TrainReport report = train(model, request, hooks).value();
    CHECK(report.signal == 15);
    CHECK(report.steps >= 20);
    CHECK(report.steps < 900);
    CHECK(report.steps == reported);
    // It is the run of as many steps.
    request.run = whole.path();
    request.steps = report.steps;
    REQUIRE(train(model, request).ok());
    const std::string last = "checkpoints/step-" + std::to_string(report.steps);
    CHECK(all_bytes(early.path() / last) == all_bytes(whole.path() / last));
  }
}

}  // namespace
}  // namespace pipewright
