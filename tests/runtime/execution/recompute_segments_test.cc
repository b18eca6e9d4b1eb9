// PipeMare Recompute: segments of stages that keep one input together, make the
// rest anew in time for their backward, and correct for that delay too.

#include "pipewright/plan/validation/validate.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "pipewright/simulate/given_costs.h"
#include "pipewright/simulate/simulate.h"
#include "tests/runtime/execution/async_cases.h"

namespace pipewright {
namespace {

using namespace testing;

TEST_CASE("segments equal the delay model and the interpreter") {
  int cases = 0;
  for (const auto& [name, model] : async_models())
    for (const Method method :
         {Method::PipeMare, Method::Naive, Method::Stash, Method::VerticalSync})
      for (const auto& [stages, segment] :
           {std::pair(4, 2), std::pair(4, 3), std::pair(6, 2), std::pair(6, 4)})
        for (const int microbatches : {1, 2, 4}) {
          CAPTURE(name);
          CAPTURE(to_text(method));
          CAPTURE(stages);
          CAPTURE(segment);
          CAPTURE(microbatches);
          const Plan plan =
              segmented_plan(model, method, stages, microbatches, segment);
          const Program program = lowered(model, plan);
          REQUIRE(validate(program).ok());
          TrainingSettings settings = async_settings();
          settings.learning_rate = [](std::int64_t) { return 0.01; };
          const int steps = program.minibatches_outside + 4;
          const Trained done = executed(model, program, settings, steps);
          CHECK(is_identical(done, delayed(model, delayed_pipeline(model, plan),
                                           settings, steps)));
          const auto interpreted = interpret(model, program, settings,
                                             random_source(model, 4), steps);
          REQUIRE(interpreted.ok());
          CHECK(is_identical(done, *interpreted));
          ++cases;
        }
  CHECK(cases == 4 * 4 * 4 * 3);
}

TEST_CASE("a stage recomputes as early as its segment's rest takes") {
  const Model& model = async_models().at("gpt");
  const Program program =
      lowered(model, segmented_plan(model, Method::PipeMare, 9, 2, 3));
  const auto facts = validate(program);
  REQUIRE(facts.ok());
  for (int s = 0; s < 9; ++s) {
    CAPTURE(s);
    const StageDelay& delay = program.delays[static_cast<std::size_t>(s)];
    CHECK(delay.forward == (8 - s) / 2.0);
    CHECK(delay.recompute == (s < 6 ? 2 - s % 3 : 0) / 2.0);
    CHECK(delay.backward == 0);
    CHECK(facts->staleness[static_cast<std::size_t>(s)].recompute ==
          delay.recompute);
  }
}

// Otherwise the same net, stage for stage.
Bytes activations(const Model& model, const Plan& plan) {
  const Program program = lowered(model, plan);
  Bytes sum;
  for (const WorkerSummary& worker :
       simulate(program, equal_costs(program)).workers)
    sum += worker.peak.activations;
  return sum;
}

TEST_CASE("segments hold less than stages that recompute, and these less") {
  const Model model = load_model("mlp:features=16,hidden=16,layers=32").value();
  const int stages = 32;
  const Plan kept = segmented_plan(model, Method::PipeMare, stages, 4, 0);
  const Plan own = segmented_plan(model, Method::PipeMare, stages, 4, 1);
  const Plan six = segmented_plan(model, Method::PipeMare, stages, 4, 6);
  CHECK(activations(model, own) < activations(model, kept));
  CHECK(activations(model, six) < activations(model, own));
}

TEST_CASE("segments that cannot be run are refused") {
  const Model& model = async_models().at("mlp");
  const Profile profile = profile_of(model, 4);
  Plan plan = segmented_plan(model, Method::PipeMare, 4, 2, 2);
  REQUIRE(check_plan(plan, profile).ok());
  plan.stages[0].recompute = false;
  CHECK_FALSE(check_plan(plan, profile).ok());
  plan.stages[0].recompute = plan.stages[0].continues = true;
  CHECK_FALSE(check_plan(plan, profile).ok());
  // The schedule does not say when.
  plan = async_plan(model, Method::PipeMare, 4, 4, 2);
  plan.stages[0].recompute = plan.stages[1].recompute = true;
  REQUIRE(check_plan(plan, profile).ok());
  plan.stages[1].continues = true;
  CHECK_FALSE(check_plan(plan, profile).ok());
}

}  // namespace
}  // namespace pipewright
