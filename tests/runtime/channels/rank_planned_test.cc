// Every planner's own plan of a measured profile, trained with a rank per
// worker: the bits of the interpreter of the same program, also with gradients
// in buckets. All ranks plan for themselves, from one stored profile.

#include <doctest/doctest.h>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/ranks/commands.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "tests/runtime/channels/ranks.h"
#include "tests/runtime/planned_cases.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

void check_run(Transport& transport, const Model& model, const Profile& profile,
               const Plan& plan) {
  const Program program = lower(plan, profile).value();
  const MicrobatchSource source = random_source(model, plan.microbatch);
  const TrainingSettings settings = settings_for_tests();
  Executor executor(model, program, settings, &transport);
  if (!transport.leads()) {
    executor.follow(source);
    return;
  }
  const int steps = program.minibatches_outside + 2;
  const Result<Executed> run = executor.run(source, steps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  TrainingState state = executor.state();  // of all ranks
  const Trained trained{std::move(state.parameters),
                        std::move(state.statistics), run->losses};
  shut_down(transport, {});
  const Trained expected =
      interpret(model, program, settings, source, steps).value();
  CHECK(is_identical(trained, expected));
}

TEST_CASE("a plan with layers split between devices") {
  const auto transport = session().connect({});
  for (const char* name : {"gpt", "mlp"}) {
    CAPTURE(name);
    const SplitCase split = split_case(stored_profiles().at(name), 3);
    REQUIRE(split.plan.num_stages() == 3);
    const Model model = load_model(split.plan.model).value();
    check_run(*transport, model, split.profile, split.plan);
  }
}

TEST_CASE("every planner's plan of stored measured profiles") {
  const auto transport = session().connect({});
  PlannedTally tally;
  for (const char* name : {"gpt", "lenet"}) {
    const Profile& profile = stored_profiles().at(name);
    const Model model = load_model(profile.model).value();
    for (const PlannedCase& each : planned_cases(profile, "3xcpu@200MB/s")) {
      CAPTURE(name);
      CAPTURE(each.name);
      check_run(*transport, model, profile, each.plan);
      const Plan buckets = in_buckets(each.plan, profile);
      if (buckets.num_stages() > each.plan.num_stages())
        check_run(*transport, model, profile, buckets);
      tally.count(each);
    }
  }
  if (transport->leads()) MESSAGE(tally.plans, " plans");
  for (const auto& planner : planners())
    CHECK_MESSAGE(tally.of_planner[planner->name()] >= 2, planner->name());
  CHECK(tally.pipelines > 10);
  CHECK(tally.replicated > 5);
}

TEST_CASE("unequal shares, in buckets") {
  const auto transport = session().connect({});
  for (const auto& [name, profile] : stored_profiles()) {
    CAPTURE(name);
    const Model model = load_model(profile.model).value();
    const Plan plan = unequal_shares(profile);
    REQUIRE(plan.stages[0].samples == std::vector<int>{4, 4, 2});
    check_run(*transport, model, profile, in_buckets(plan, profile));
  }
}

}  // namespace
}  // namespace pipewright
