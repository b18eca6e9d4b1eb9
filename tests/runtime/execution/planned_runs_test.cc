// Every planner's own plan of a measured profile is trained, and has the bits
// of the interpreter of the same program. tests/runtime/channels/ has the same
// over MPI.

#include <doctest/doctest.h>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/profiling/profiler.h"
#include "pipewright/runtime/reference/interpreter.h"
#include "tests/runtime/planned_cases.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

int steps_of(const Plan& plan, const Profile& profile) {
  return lower(plan, profile)->minibatches_outside + 2;
}

Trained check_run(const Model& model, const Profile& profile, const Plan& plan,
                  int steps) {
  const Program program = lower(plan, profile).value();
  const MicrobatchSource source = random_source(model, plan.microbatch);
  const TrainingSettings settings = settings_for_tests();
  Executor executor(model, program, settings);
  const Result<Executed> run = executor.run(source, steps);
  REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  CHECK(executor.num_values_held() == 0);
  const Trained expected =
      interpret(model, program, settings, source, steps).value();
  CHECK(is_identical(executor.trained(), expected));
  return executor.trained();
}

// Sums of gradients in buckets have the bits of sums stage by stage.
void check_all(const Profile& profile, const std::string& cluster,
               PlannedTally& tally, int& cut) {
  const Model model = load_model(profile.model).value();
  for (const PlannedCase& each : planned_cases(profile, cluster)) {
    CAPTURE(profile.model);
    CAPTURE(each.name);
    tally.count(each);
    const Plan buckets = in_buckets(each.plan, profile);
    const int steps =
        std::max(steps_of(each.plan, profile), steps_of(buckets, profile));
    const Trained trained = check_run(model, profile, each.plan, steps);
    if (buckets.num_stages() == each.plan.num_stages()) continue;
    CHECK(is_identical(check_run(model, profile, buckets, steps), trained));
    ++cut;
  }
}

TEST_CASE("a plan with layers split between devices") {
  for (const char* name : {"gpt", "mlp"}) {
    CAPTURE(name);
    const Profile& profile = stored_profiles().at(name);
    const SplitCase split = split_case(profile, 3);
    REQUIRE(split.plan.num_stages() == 3);
    REQUIRE(split.profile.num_layers() > profile.num_layers());
    const Model model = load_model(split.plan.model).value();
    check_run(model, split.profile, split.plan, 3);
  }
}

TEST_CASE("every planner's plan of stored measured profiles") {
  PlannedTally tally;
  int cut = 0;
  for (const auto& [name, profile] : stored_profiles())
    check_all(profile, "3xcpu", tally, cut);
  MESSAGE(cut, " plans in buckets, too");
  CHECK(cut > 10);
  // Each of three networks, by at least one method.
  for (const auto& planner : planners())
    CHECK_MESSAGE(tally.of_planner[planner->name()] >= 3, planner->name());
  MESSAGE(tally.plans, " plans, ", tally.pipelines, " pipelines, ",
          tally.replicated, " with replicas, ", tally.cut_apart,
          " with forward and backward cut apart");
  CHECK(tally.pipelines > 20);
  CHECK(tally.replicated > 10);
  CHECK(tally.cut_apart >= 3);
}

TEST_CASE("every planner's plan of a profile measured now") {
  ProfilerOptions options;
  options.budget = Seconds(0.3);
  PlannedTally tally;
  int cut = 0;
  for (const char* name : {"lenet", "mlp"}) {
    const Model model = load_model(stored_profiles().at(name).model).value();
    Profile profile = measured_profile(model, {{4, 8}}, options).value();
    profile.model = stored_profiles().at(name).model;
    check_all(profile, "2xcpu", tally, cut);
  }
  for (const auto& planner : planners())
    CHECK_MESSAGE(tally.of_planner[planner->name()] >= 2, planner->name());
}

TEST_CASE("unequal shares, whole and in buckets") {
  for (const auto& [name, profile] : stored_profiles()) {
    CAPTURE(name);
    const Model model = load_model(profile.model).value();
    const Plan plan = unequal_shares(profile);
    REQUIRE(plan.stages[0].samples == std::vector<int>{4, 4, 2});
    const Plan buckets = in_buckets(plan, profile);
    CHECK(buckets.num_stages() > 1);
    const Trained trained = check_run(model, profile, plan, 2);
    CHECK(is_identical(check_run(model, profile, buckets, 2), trained));
  }
}

}  // namespace
}  // namespace pipewright
