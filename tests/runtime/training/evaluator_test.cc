// Evaluation under the pipeline: the same bits as one thread that goes through
// the model sample by sample, whatever the schedule.

#include "pipewright/runtime/training/evaluator.h"

#include <doctest/doctest.h>

#include "pipewright/runtime/layers/layer_makers.h"
#include "pipewright/runtime/reference/sequential.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

using namespace testing;

// Fails unless evaluation after some training equals the sequential one.
void check_equal(const Model& model, const Program& program, int samples) {
  const Dataset held_out =
      open_dataset("synthetic:" + std::to_string(samples), model).value();
  Executor executor(model, program, settings_for_tests());
  const int steps = std::max(3, program.minibatches_outside);
  REQUIRE(executor.run(random_source(model, program.microbatch), steps).ok());
  const Score wanted = evaluate_sequentially(
      model, executor.trained(), in_order(held_out, program.microbatch),
      program.microbatch, samples);
  Evaluator evaluator(model, program, held_out);
  for (int again = 0; again < 2; ++again) {
    const Result<Evaluation> found = evaluator.run(executor.trained());
    REQUIRE_MESSAGE(found.ok(), (found.ok() ? "" : found.error().to_text()));
    CHECK(found->samples == samples);
    CHECK(found->loss == wanted.loss / samples);
    CHECK(*found->accuracy == static_cast<double>(wanted.hits) /
                                  static_cast<double>(wanted.targets));
  }
}

TEST_CASE("every schedule evaluates to the same bits") {
  for (const Model& model : {small_cnn(), small_gpt()})
    for (const char* schedule :
         {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "chimera"})
      for (const int samples : {1, 8, 23}) {
        CAPTURE(model.name());
        CAPTURE(schedule);
        CAPTURE(samples);
        check_equal(model, request_for(model, schedule, 2, 4, "").program,
                    samples);
      }
}

TEST_CASE("asynchronous methods evaluate with the weights they have") {
  const Model model = small_cnn();
  for (const Method method : {Method::PipeMare, Method::Stash})
    check_equal(model,
                request_for(model, "async-1f1b", 3, 4, "", method).program, 23);
}

TEST_CASE("replicas and a backward elsewhere evaluate, too") {
  const Model model = small_cnn();
  ScheduleRequest wanted;
  wanted.workers = 2;
  wanted.microbatches = 4;
  const Schedule schedule = generate_schedule("1f1b", wanted).value();
  for (const Replication replication :
       {Replication::Split, Replication::Rotate}) {
    const Plan plan =
        plan_of(model, with_replicas(schedule, {2, 1}, replication).value(), 4);
    const Program program = lower(plan, profile_of(model, 4)).value();
    Executor executor(model, program, settings_for_tests());
    const Dataset samples = open_dataset("synthetic:23", model).value();
    const Score expected = evaluate_sequentially(model, executor.trained(),
                                                 in_order(samples, 4), 4, 23);
    const Evaluation found =
        Evaluator(model, program, samples).run(executor.trained()).value();
    CHECK(found.samples == 23);
    CHECK(found.loss == doctest::Approx(expected.loss / 23).epsilon(1e-6));
  }
  Plan plan = plan_of(model, schedule, 4);
  for (Stage& stage : plan.stages) stage.backward.clear();
  for (int l = 0; l < model.num_layers(); ++l)
    plan.stages[l < 5 ? 0 : 1].backward.push_back(LayerId(l));
  check_equal(model, lower(plan, profile_of(model, 4)).value(), 23);
}

TEST_CASE("evaluation leaves training as it is") {
  const Model model = small_cnn();
  const Program program = request_for(model, "1f1b", 2, 4, "").program;
  const MicrobatchSource source = random_source(model, program.microbatch);
  Executor plain(model, program, settings_for_tests());
  REQUIRE(plain.run(source, 4).ok());
  Executor watched(model, program, settings_for_tests());
  Evaluator evaluator(model, program,
                      open_dataset("synthetic:9", model).value());
  for (int step = 0; step < 4; ++step) {
    REQUIRE(watched.run(source, 1).ok());
    REQUIRE(evaluator.run(watched.trained()).ok());
  }
  CHECK(is_identical(plain.trained(), watched.trained()));
}

// A layer that gives every sample the class that is asked for.
TEST_CASE("hits are counted, and samples that fill up are not") {
  Sketch sketch("one");
  const Source x = sketch.input("image", {3});
  const Source target = sketch.indices("target", {});
  sketch.add(LayerKind::CrossEntropy, {x, target});
  const Model model = sketch.build();
  const auto function = layer_function(model, LayerId(0));
  const at::Tensor scores = at::eye(3);
  const at::Tensor classes = at::arange(3);
  const Score all =
      score_of(model.layer(LayerId(0)), *function, {scores, classes}, 100);
  CHECK(all.samples == 3);
  CHECK(all.hits == 3);
  const Score two = score_of(model.layer(LayerId(0)), *function,
                             {scores, classes.flip(0)}, 2);
  CHECK(two.samples == 2);
  CHECK(two.hits == 1);
  CHECK(score_of(model.layer(LayerId(0)), *function, {scores, classes}, 0)
            .samples == 0);
}

}  // namespace
}  // namespace pipewright
