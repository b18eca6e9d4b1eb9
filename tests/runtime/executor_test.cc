// The executor does what the program says: the same bits as the interpreter for
// every program, and as plain sequential training for synchronous ones.

#include "pipewright/runtime/executor.h"

#include <doctest/doctest.h>

#include "pipewright/runtime/interpreter.h"
#include "pipewright/runtime/sequential.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kSteps = 5;

Schedule generated(const std::string& name, int workers, int microbatches) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  return generate_schedule(name, request).value();
}

Program lowered(const Model& model, const Plan& plan) {
  return lower(plan, profile_of(model, plan.microbatch)).value();
}

Trained executed(const Model& model, const Program& program,
                 const TrainingSettings& settings, int steps) {
  Executor executor(model, program, settings);
  const auto result =
      executor.run(random_source(model, program.microbatch), steps);
  REQUIRE_MESSAGE(result.ok(), (result.ok() ? "" : result.error().to_text()));
  CHECK(executor.num_values_held() == 0);
  return executor.trained();
}

void check_equals_interpreter(const Model& model, const Plan& plan,
                              const TrainingSettings& settings, int steps) {
  const Program program = lowered(model, plan);
  const Trained done = executed(model, program, settings, steps);
  const Result<Trained> expected =
      interpret(model, program, settings,
                random_source(model, program.microbatch), steps);
  REQUIRE_MESSAGE(expected.ok(),
                  (expected.ok() ? "" : expected.error().to_text()));
  CHECK(is_identical(done, *expected));
}

TEST_CASE("mlp on two workers, 1f1b: executor, interpreter and sequential") {
  const Model model = small_mlp();
  const Plan plan = plan_of(model, generated("1f1b", 2, 4), kMicrobatch);
  const Program program = lowered(model, plan);
  const TrainingSettings settings = settings_for_tests();
  const MicrobatchSource source = random_source(model, kMicrobatch);
  const Trained done = executed(model, program, settings, kSteps);
  const Trained reference =
      train_sequentially(model, settings, source, {4, kMicrobatch}, kSteps);
  CHECK(is_identical(done, reference));
  CHECK(is_identical(*interpret(model, program, settings, source, kSteps),
                     reference));
  CHECK(done.losses.size() == 4 * kSteps);
  CHECK(done.losses.front() != done.losses.back());
}

TEST_CASE("a run may be cut into runs") {
  const Model model = small_mlp();
  const Program program =
      lowered(model, plan_of(model, generated("gpipe", 2, 2), kMicrobatch));
  const TrainingSettings settings = settings_for_tests();
  const MicrobatchSource source = random_source(model, kMicrobatch);
  Executor executor(model, program, settings);
  for (int t = 0; t < kSteps; ++t) REQUIRE(executor.run(source, 1).ok());
  CHECK(is_identical(executor.trained(),
                     executed(model, program, settings, kSteps)));
}

TEST_CASE("asynchronous methods equal the interpreter") {
  const Model model = small_mlp();
  TrainingSettings settings = settings_for_tests();
  settings.rescheduling_steps = 6;
  for (const Method method : {Method::PipeMare, Method::Naive, Method::Stash,
                              Method::TwoBw, Method::VerticalSync})
    for (const int workers : {2, 4})
      for (const int microbatches : {1, 4}) {
        // 2bw needs as many microbatches as stages.
        if (method == Method::TwoBw && microbatches < workers) continue;
        CAPTURE(to_text(method));
        CAPTURE(workers);
        CAPTURE(microbatches);
        const Plan plan =
            plan_of(model, generated("async-1f1b", workers, microbatches),
                    kMicrobatch, method);
        check_equals_interpreter(model, plan, settings, 12);
      }
}

TEST_CASE("forward and backward with different cuts") {
  const Model model = small_mlp();
  Plan plan = plan_of(model, generated("1f1b", 2, 4), kMicrobatch);
  for (const int moved : {-2, 2}) {
    Plan apart = plan;
    for (Stage& stage : apart.stages) stage.backward.clear();
    const int cut = static_cast<int>(plan.stages[0].forward.size()) + moved;
    for (int l = 0; l < model.num_layers(); ++l)
      apart.stages[l < cut ? 0 : 1].backward.push_back(LayerId(l));
    const Program program = lowered(model, apart);
    const TrainingSettings settings = settings_for_tests();
    const Trained done = executed(model, program, settings, kSteps);
    CHECK(is_identical(
        done,
        train_sequentially(model, settings, random_source(model, kMicrobatch),
                           {4, kMicrobatch}, kSteps)));
    check_equals_interpreter(model, apart, settings, kSteps);
  }
}

TEST_CASE("a worker that throws stops all, and says where it was") {
  const Model model = small_mlp();
  Executor executor(
      model,
      lowered(model, plan_of(model, generated("1f1b", 2, 4), kMicrobatch)),
      settings_for_tests());
  const MicrobatchSource good = random_source(model, kMicrobatch);
  const MicrobatchSource bad = [&](int input, std::int64_t m) {
    if (input == 1 && m == 6) return at::full({kMicrobatch}, 99, at::kLong);
    return good(input, m);
  };
  const Result<Executed> result = executor.run(bad, 3);
  REQUIRE(!result.ok());
  CHECK(result.error().code == ErrorCode::WorkerLost);
  CHECK(result.error().where ==
        "worker 1, stage 1, forward of microbatch 6, layer cross_entropy10");
}

TEST_CASE("a loss that is no number stops all") {
  const Model model = small_mlp();
  Executor executor(
      model,
      lowered(model, plan_of(model, generated("1f1b", 2, 4), kMicrobatch)),
      settings_for_tests());
  const MicrobatchSource good = random_source(model, kMicrobatch);
  REQUIRE(executor.run(good, 1).ok());
  const Trained before = executor.trained();
  const Result<Executed> result = executor.run(
      [&](int input, std::int64_t m) {
        return input == 0 && m == 9 ? good(input, m).div(0) : good(input, m);
      },
      3);
  REQUIRE(!result.ok());
  CHECK(result.error().code == ErrorCode::LossNotFinite);
  CHECK(is_identical(executor.trained(), before));
}

}  // namespace
}  // namespace pipewright
