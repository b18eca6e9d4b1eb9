// Clipping by global norm: torch's result, and the same bits under every
// program as in sequential training.

#include <doctest/doctest.h>
#include <torch/nn/utils/clip_grad.h>

#include "pipewright/plan/validation/validate.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/gradients.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/runtime/reference/sequential.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4, kMicrobatches = 4, kSteps = 4;

TrainingSettings clipping(double most) {
  TrainingSettings settings = settings_for_tests();
  settings.max_norm = most;
  return settings;
}

TEST_CASE("clip is torch's clip_grad_norm_") {
  at::manual_seed(5);
  for (const double most : {0.01, 1.0, 100.0}) {
    Gradients gradients(5);
    std::vector<at::Tensor> theirs;
    for (int i = 0; i < 5; ++i) {
      const at::Tensor gradient = at::randn({3 + i, 4});
      gradients[static_cast<std::size_t>(i)] = gradient.clone();
      theirs.push_back(at::zeros({3 + i, 4}).set_requires_grad(true));
      theirs.back().mutable_grad() = gradient.clone();
    }
    const double norm = norm_of(gradients);
    CHECK(norm ==
          doctest::Approx(torch::nn::utils::clip_grad_norm_(theirs, most))
              .epsilon(1e-6));
    clip(gradients, norm, most);
    for (int i = 0; i < 5; ++i)
      CHECK((gradients[static_cast<std::size_t>(i)] -
             theirs[static_cast<std::size_t>(i)].grad())
                .abs()
                .max()
                .item<double>() <= 1e-6);
  }
}

// Equal to the interpreter always, to sequential training where `ordered`.
void check(const Model& model, const Plan& plan, bool ordered) {
  LowerOptions options;
  options.global_norm = true;
  const Program program =
      lower(plan, profile_of(model, kMicrobatch), options).value();
  const auto valid = validate(program);
  REQUIRE_MESSAGE(valid.ok(), (valid.ok() ? "" : valid.error().to_text()));
  const MicrobatchSource source = random_source(model, kMicrobatch);
  const TrainingSettings settings = clipping(0.05);
  Executor executor(model, program, settings);
  const auto run = executor.run(source, kSteps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  const auto expected = interpret(model, program, settings, source, kSteps);
  REQUIRE_MESSAGE(expected.ok(),
                  (expected.ok() ? "" : expected.error().to_text()));
  CHECK(is_identical(executor.trained(), *expected));
  const MinibatchShape shape{kMicrobatches, kMicrobatch};
  const Trained plain =
      train_sequentially(model, settings, source, shape, kSteps);
  if (ordered) CHECK(is_identical(executor.trained(), plain));
  // It does clip.
  CHECK(!is_identical(plain, train_sequentially(model, settings_for_tests(),
                                                source, shape, kSteps)));
}

TEST_CASE("every kind of synchronous program clips to the same bits") {
  for (const Model& model : {small_cnn(), small_gpt()})
    for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"})
      for (const int workers : {1, 2, 3}) {
        CAPTURE(model.name());
        CAPTURE(name);
        CAPTURE(workers);
        if (workers == 1 && std::string(name) != "1f1b") continue;
        const Schedule schedule = generated(name, workers, kMicrobatches);
        if (schedule.num_stages() > model.num_layers()) continue;
        check(model, plan_of(model, schedule, kMicrobatch), true);
      }
}

TEST_CASE("replicas clip by the norm of their sums") {
  for (const Model& model : {small_cnn(), small_gpt()})
    for (const Replication replication :
         {Replication::Split, Replication::Rotate})
      for (const std::vector<int>& replicas :
           {std::vector<int>{2, 1}, {1, 2}, {2, 2}})
        check(model,
              plan_of(model,
                      with_replicas(generated("1f1b", 2, kMicrobatches),
                                    replicas, replication)
                          .value(),
                      kMicrobatch),
              false);
}

TEST_CASE("forward and backward at different workers") {
  const Model model = small_cnn();
  Plan plan = plan_of(model, generated("1f1b", 2, kMicrobatches), kMicrobatch);
  for (Stage& stage : plan.stages) stage.backward.clear();
  for (int l = 0; l < model.num_layers(); ++l)
    plan.stages[l < 5 ? 0 : 1].backward.push_back(LayerId(l));
  check(model, plan, true);
}

TEST_CASE("where minibatches overlap there is no norm to clip by") {
  const Model model = small_mlp();
  const Plan plan = plan_of(model, generated("async-1f1b", 2, kMicrobatches),
                            kMicrobatch, Method::PipeMare);
  LowerOptions options;
  options.global_norm = true;
  const auto refused = lower(plan, profile_of(model, kMicrobatch), options);
  REQUIRE(!refused.ok());
  CHECK(refused.error().code == ErrorCode::BadConfiguration);
  CHECK(refused.error().message.find("pipemare") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
