// Every asynchronous method, on threads, equals a model of itself bit for bit:
// rings of delayed weights on one thread, written from the papers' rules.

#include "pipewright/runtime/reference/sequential.h"
#include "tests/runtime/execution/async_cases.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kSteps = 12;

TEST_CASE("every method on 2 to 4 workers equals the delay model") {
  int cases = 0;
  for (const auto& [name, model] : async_models())
    for (const Method method : kMethods)
      for (int workers = 2; workers <= 4; ++workers)
        for (const int microbatches : {1, 2, 4}) {
          if (!is_asynchronous(method)) continue;
          // 2bw reads weights that are not made with fewer microbatches.
          if (method == Method::TwoBw && microbatches < workers) continue;
          CAPTURE(name);
          CAPTURE(to_text(method));
          CAPTURE(workers);
          CAPTURE(microbatches);
          const Plan plan =
              async_plan(model, method, workers, workers, microbatches);
          const TrainingSettings settings = async_settings();
          CHECK(is_identical(
              executed(model, lowered(model, plan), settings, kSteps),
              delayed(model, delayed_pipeline(model, plan), settings, kSteps)));
          ++cases;
        }
  CHECK(cases == 4 * (4 * 9 + 4));
}

TEST_CASE("many stages on two workers have the delays of many workers") {
  for (const auto& [name, model] : async_models())
    for (const Method method :
         {Method::PipeMare, Method::Naive, Method::Stash, Method::VerticalSync})
      for (const int microbatches : {1, 4}) {
        CAPTURE(name);
        CAPTURE(to_text(method));
        CAPTURE(microbatches);
        const Plan plan =
            async_plan(model, method, model.num_layers(), 2, microbatches);
        // At this depth larger steps diverge, and no NaN equals another.
        TrainingSettings settings = async_settings();
        settings.learning_rate = [](std::int64_t) { return 1e-3; };
        const Program program = lowered(model, plan);
        const int steps = program.minibatches_outside + 2;
        CHECK(is_identical(
            executed(model, program, settings, steps),
            delayed(model, delayed_pipeline(model, plan), settings, steps)));
      }
}

TEST_CASE("without delay every method is synchronous training") {
  for (const auto& [name, model] : async_models())
    for (const Method method : kMethods) {
      // 2bw reads one version back by definition.
      if (method == Method::TwoBw || method == Method::Sync) continue;
      CAPTURE(name);
      CAPTURE(to_text(method));
      const Plan plan = async_plan(model, method, 1, 1, 4);
      const TrainingSettings settings = async_settings();
      const MicrobatchSource source = random_source(model, 4);
      const Trained synchronous =
          train_sequentially(model, settings, source, {4, 4}, kSteps);
      CHECK(
          is_identical(executed(model, lowered(model, plan), settings, kSteps),
                       synchronous));
      CHECK(is_identical(
          delayed(model, delayed_pipeline(model, plan), settings, kSteps),
          synchronous));
    }
}

// Stash and 2bw recompute with the very weights of the forward: the same bits
// as without. PipeMare recomputes with corrected weights: others.
TEST_CASE("recomputation reads the weights that the method says") {
  for (const auto& [name, model] : async_models())
    for (const Method method :
         {Method::Stash, Method::TwoBw, Method::Naive, Method::PipeMare}) {
      CAPTURE(name);
      CAPTURE(to_text(method));
      Plan plan = async_plan(model, method, 3, 3, 4);
      const TrainingSettings settings = async_settings();
      const Trained kept =
          executed(model, lowered(model, plan), settings, kSteps);
      for (Stage& stage : plan.stages) stage.recompute = true;
      const Trained again =
          executed(model, lowered(model, plan), settings, kSteps);
      CHECK(is_identical(again, delayed(model, delayed_pipeline(model, plan),
                                        settings, kSteps)));
      CHECK(is_identical(again, kept) ==
            (method == Method::Stash || method == Method::TwoBw));
    }
}

TEST_CASE("PipeMare's techniques can be switched off") {
  const Model& model = async_models().at("gpt");
  const Plan plan = async_plan(model, Method::PipeMare, 4, 4, 2);
  Program program = lowered(model, plan);
  TrainingSettings settings = async_settings();
  const Trained both = executed(model, program, settings, kSteps);
  set_corrected(program, false);
  DelayedPipeline pipeline = delayed_pipeline(model, plan);
  pipeline.uncorrected = true;
  const Trained t1 = executed(model, program, settings, kSteps);
  CHECK(is_identical(t1, delayed(model, pipeline, settings, kSteps)));
  CHECK_FALSE(is_identical(t1, both));
  settings.rescheduling_steps = 0;
  Plan naive = plan;
  naive.method = Method::Naive;
  CHECK(is_identical(executed(model, program, settings, kSteps),
                     executed(model, lowered(model, naive), settings, kSteps)));
}

// Both copies of a tied parameter are stepped with one rate and one average.
TEST_CASE("a tied parameter stays one parameter") {
  const Model& model = async_models().at("gpt");
  const Program program =
      lowered(model, async_plan(model, Method::PipeMare, 4, 4, 2));
  int tied = 0;
  for (const Reduction& reduction : program.reductions)
    for (const ParameterId id : reduction.parameters)
      for (const StageId stage : reduction.stages) {
        const StepRule rule = step_rule(program, stage, id);
        CHECK(rule.delay == program.delays[0].forward);
        CHECK(rule.averaging == program.delays[0].averaging);
        ++tied;
      }
  CHECK(tied == 2);
  CHECK(program.delays[3].forward == 0);
  CHECK(program.delays[0].forward == 1.5);
}

}  // namespace
}  // namespace pipewright
