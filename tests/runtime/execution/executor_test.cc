// The executor does what the program says: the same bits as the interpreter for
// every program, and as plain sequential training for synchronous ones.

#include "pipewright/runtime/execution/executor.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <stdexcept>

#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/runtime/reference/sequential.h"
#include "pipewright/runtime/unsupported_operator.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kSteps = 5;

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
        "step 2, worker 1, stage 1, forward of microbatch 2, layer "
        "cross_entropy10");
}

// A device that fails is started again; memory and operators that it lacks
// would be missing again.
TEST_CASE("what a worker throws decides whether another start helps") {
  const Model model = small_mlp();
  const MicrobatchSource good = random_source(model, kMicrobatch);
  const auto error_after = [&](const std::function<void()>& fail) {
    Executor executor(
        model,
        lowered(model, plan_of(model, generated("1f1b", 2, 4), kMicrobatch)),
        settings_for_tests());
    const MicrobatchSource bad = [&](int input, std::int64_t m) {
      if (input == 1 && m == 6) fail();
      return good(input, m);
    };
    const Result<Executed> result = executor.run(bad, 3);
    REQUIRE(!result.ok());
    CHECK(result.error().where.find("step 2, worker 1") == 0);
    return result.error();
  };
  CHECK(error_after([] {
          TORCH_CHECK(false, "CUDA error: unspecified launch failure");
        }).code == ErrorCode::WorkerLost);
  CHECK(error_after([] {
          TORCH_CHECK(false, "CUDA error: out of memory");
        }).code == ErrorCode::OutOfMemory);
  const Error draws = error_after([] {
    throw UnsupportedOperator("aten::rand: on cores only", "use cores");
  });
  CHECK(draws.code == ErrorCode::BadConfiguration);
  CHECK(draws.message == "aten::rand: on cores only");
  CHECK(draws.hint == "use cores");
  const Error differs = error_after([] {
    TORCH_CHECK(false,
                "max_pool_backward_cuda does not have a deterministic "
                "implementation, but you set "
                "'torch.use_deterministic_algorithms(True)'.");
  });
  CHECK(differs.code == ErrorCode::BadConfiguration);
  CHECK(differs.message ==
        "max_pool_backward_cuda has no kernel here that gives the same bits "
        "twice");
  CHECK(differs.hint.find("--fast-kernels") == 0);
}

// Good but for one microbatch, whose first input is infinite.
MicrobatchSource infinite_at(const MicrobatchSource& good, std::int64_t bad) {
  return [&good, bad](int input, std::int64_t m) {
    return input == 0 && m == bad ? good(input, m).div(0) : good(input, m);
  };
}

TEST_CASE(
    "a loss that is not a number stops all, and costs its minibatch alone") {
  const TrainingSettings settings = settings_for_tests();
  for (const Model& model : {small_mlp(), small_cnn()})
    for (const std::string name : {"1f1b", "gpipe", "zb-h1"}) {
      CAPTURE(model.name());
      CAPTURE(name);
      const MicrobatchSource good = random_source(model, kMicrobatch);
      const auto after = [&](int steps) {
        return train_sequentially(model, settings, good, {4, kMicrobatch},
                                  steps);
      };
      Executor executor(
          model,
          lowered(model, plan_of(model, generated(name, 2, 4), kMicrobatch)),
          settings);
      REQUIRE(executor.run(good, 1).ok());
      const Result<Executed> result =
          executor.run(infinite_at(good, 4 * 3 + 1), 5);  // in the fourth
      REQUIRE(!result.ok());
      CHECK(result.error().code == ErrorCode::LossNotFinite);
      CHECK(is_identical(executor.trained(), after(3)));
      CHECK(executor.state().minibatches == 3);
      REQUIRE(executor.run(good, 2).ok());
      CHECK(is_identical(executor.trained(), after(5)));
    }
}

TEST_CASE("all stop within a second of a worker's failure") {
  const Model model = small_mlp();
  Executor executor(
      model,
      lowered(model, plan_of(model, generated("1f1b", 4, 8), kMicrobatch)),
      settings_for_tests());
  const MicrobatchSource good = random_source(model, kMicrobatch);
  std::chrono::steady_clock::time_point thrown;
  const MicrobatchSource bad = [&](int input, std::int64_t m) -> at::Tensor {
    if (input == 0 || m < 100) return good(input, m);
    thrown = std::chrono::steady_clock::now();
    throw std::runtime_error("no more");
  };
  const Result<Executed> result = executor.run(bad, 2000);
  REQUIRE(!result.ok());
  CHECK(std::chrono::steady_clock::now() - thrown < std::chrono::seconds(1));
  CHECK(result.error().message == "no more");
  CHECK(result.error().where ==
        "step 13, worker 3, stage 3, forward of microbatch 4, layer "
        "cross_entropy10");
}

TEST_CASE("what was restored counts as the memory of the worker that uses it") {
  const Model model = small_mlp();
  const Program program =
      lowered(model, plan_of(model, generated("1f1b", 1, 4), kMicrobatch));
  const MicrobatchSource source = random_source(model, kMicrobatch);
  const auto peak = [](const Result<Executed>& done) {
    return done.value().timeline.workers[0].peak.total();
  };
  Executor first(model, program, settings_for_tests());
  REQUIRE(first.run(source, 2).ok());
  Executor second(model, program, settings_for_tests());
  second.resume(first.state());
  CHECK(peak(second.run(source, 2)) == peak(first.run(source, 2)));
}

// Repetitions in the middle of a run share their code.
TEST_CASE("a long run of a program that fills and drains") {
  const Model model = small_mlp();
  for (const Method method : {Method::PipeMare, Method::Stash})
    check_equals_interpreter(
        model,
        plan_of(model, generated("async-1f1b", 4, 2), kMicrobatch, method),
        settings_for_tests(), 40);
}

// With one worker to the byte; with several a tensor may be handed back later
// than before, and another one be needed meanwhile.
TEST_CASE("a steady state asks the system for no memory for tensors") {
  for (const Model& model : {small_mlp(), small_cnn(), small_gpt()})
    for (const int workers : {1, 2}) {
      CAPTURE(model.name());
      CAPTURE(workers);
      Executor executor(
          model,
          lowered(model,
                  plan_of(model, generated("1f1b", workers, 4), kMicrobatch)),
          settings_for_tests());
      const MicrobatchSource source = random_source(model, kMicrobatch);
      for (int i = 0; i < 2; ++i) REQUIRE(executor.run(source, 5).ok());
      const Bytes before = executor.reserved();
      CHECK(before > Bytes(0));
      REQUIRE(executor.run(source, 10).ok());
      const Bytes more = executor.reserved() - before;
      CHECK(more <= (workers == 1 ? Bytes(0) : before / std::int64_t{2}));
    }
}

TEST_CASE("the allocator measures what a worker's tensors take") {
  const Model model = small_mlp();
  Executor executor(
      model,
      lowered(model, plan_of(model, generated("gpipe", 2, 4), kMicrobatch)),
      settings_for_tests());
  const MicrobatchSource source = random_source(model, kMicrobatch);
  const Executed first = *executor.run(source, 3);
  const Executed second = *executor.run(source, 3);
  Bytes weights;
  for (const at::Tensor& tensor : executor.trained().parameters)
    weights += Bytes(static_cast<std::int64_t>(tensor.nbytes()));
  Bytes taken;
  for (std::size_t w = 0; w < 2; ++w) {
    const Bytes peak = second.timeline.workers[w].peak.total();
    // How long what was handed over counts here is up to the other worker.
    const double change = peak / first.timeline.workers[w].peak.total();
    CHECK(change == doctest::Approx(1).epsilon(0.25));
    taken += peak;
  }
  // Weights, gradients and momentum, and four microbatches of activations.
  CHECK(taken > weights * std::int64_t{3});
  CHECK(taken < weights * std::int64_t{3} + Bytes(200'000));
}

}  // namespace
}  // namespace pipewright
