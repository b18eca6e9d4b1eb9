// Replicas that are tuned: never slower, whole minibatches, and the plan that
// comes back has the step that was promised.

#include "pipewright/planners/tuned_replicas.h"

#include <doctest/doctest.h>

#include <array>
#include <numeric>

#include "pipewright/model/model.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/plan/sample_range.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/profile/analytic.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

Result<Planned> tuned_plan(const std::string& planner, const Problem& problem) {
  return plan_with_tuned_replicas(problem, [&](const Problem& tuned) {
    return find_planner(planner).value()->plan(tuned);
  });
}

struct TunedCounts {
  int shares = 0, buckets = 0, faster = 0;
};

void check_tuned(const std::string& planner, Problem problem,
                 TunedCounts& counts) {
  const auto before = tuned_plan(planner, problem);
  problem.bucket = Bytes(20'000);
  problem.shares_by_speed = true;
  const auto after = tuned_plan(planner, problem);
  REQUIRE(bool(before) <= bool(after));
  if (!after) return;
  const Plan& plan = after->plan;
  CHECK(check_plan(plan, *problem.profile));
  CHECK(after->estimate.step == problem.estimate(plan)->step);
  CHECK(after->estimate.fits);
  CHECK(lower_bound(problem) <= after->estimate.step);
  for (const Stage& stage : plan.stages) {
    if (stage.samples.empty()) continue;
    CHECK(std::accumulate(stage.samples.begin(), stage.samples.end(), 0) *
              plan.num_microbatches() ==
          plan.minibatch);
    ++counts.shares;
  }
  counts.buckets += has_buckets(plan);
  if (!before) return;
  CHECK(after->estimate.step <= before->estimate.step);
  counts.faster += after->estimate.step < before->estimate.step;
}

TEST_CASE("tuned replicas are never slower") {
  RandomProblems random(2024);
  TunedCounts counts;
  for (int i = 0; i < 300; ++i) {
    RandomProblem made = random.next(6);
    made.problem.threads = 1;
    CAPTURE(i);
    check_tuned("data-parallel", made.problem, counts);
  }
  MESSAGE(counts.shares, " stages with shares, ", counts.buckets,
          " plans in buckets, ", counts.faster, " plans faster");
  CHECK(counts.shares > 20);
  CHECK(counts.buckets > 50);
  CHECK(counts.faster > 70);
}

// A planner that is told more may search elsewhere, so that its plan is
// compared with itself before it was tuned.
TEST_CASE("a plan of any planner is never slower than before it was tuned") {
  RandomProblems random(2025);
  int tuned = 0;
  for (int i = 0; i < 40; ++i) {
    RandomProblem made = random.next(6);
    Problem& problem = made.problem;
    problem.threads = 1;
    problem.bucket = Bytes(20'000);
    problem.shares_by_speed = true;
    for (const char* name : {"pipedream", "dapple", "spp"}) {
      const auto planned = tuned_plan(name, problem);
      if (!planned) continue;
      CAPTURE(i);
      CAPTURE(name);
      const Plan before = untuned({*planned})[0].plan;
      const auto step = problem.estimate(before)->step;
      CHECK(planned->estimate.step == problem.estimate(planned->plan)->step);
      CHECK(planned->estimate.step <= step);
      CHECK(lower_bound(problem) <= planned->estimate.step);
      tuned += before.stages != planned->plan.stages;
    }
  }
  MESSAGE(tuned, " plans were tuned");
  CHECK(tuned > 10);
}

// More workers than a search tunes: the plan that it returns still is.
TEST_CASE("plans on many workers are tuned at the end") {
  const Profile profile =
      analytic_profile(load_model("vgg16").value(),
                       load_cluster("1xV100").value().kinds(), std::array{1, 2})
          .value();
  for (const int hosts : {9, 65}) {
    CAPTURE(hosts);
    const Cluster cluster =
        load_cluster(std::to_string(hosts) + "x8xV100@nvlink/25GbE").value();
    Problem problem;
    problem.profile = &profile;
    problem.cluster = &cluster;
    problem.minibatch = 16 * hosts;
    problem.microbatches = {16 * hosts};
    set_estimators(problem);
    const auto planner = find_planner("data-parallel").value();
    const Planned before = planner->plan(problem).value();
    const Planned after = default_plan(*planner, problem).value();
    CHECK(after.plan.num_workers() == 8 * hosts);
    CHECK(has_buckets(after.plan));
    CHECK(after.estimate.step < before.estimate.step);
    CHECK(after.estimate.step == problem.estimate(after.plan)->step);
  }
}

// A layer without weights: the T4 takes `slow` times as long as the V100.
TEST_CASE("shares of two devices, compared with all that are possible") {
  RandomProblem made = RandomProblems(1).next();
  *made.cluster = load_cluster("1xV100+1xT4@1GB/s").value();
  Profile& profile = *made.profile;
  profile.layers.resize(1);
  profile.layers[0].parameters.clear();
  profile.parameters.clear();
  profile.sizes = {{1, {{Bytes(4), Bytes(0), Bytes(0)}}}};
  Problem& problem = made.problem;
  problem.minibatch = 12;
  problem.microbatches = {12};
  problem.memory_limit = Bytes(0);
  set_estimators(problem);
  problem.shares_by_speed = true;
  for (const double slow : {1.0, 1.4, 2.0, 3.0, 5.5, 40.0}) {
    const auto times = [](double seconds) {
      const Seconds third(seconds / 3);
      return std::vector<LayerTimes>{{third, third, third, Seconds(0)}};
    };
    profile.times["V100"] = {{1, times(1)}};
    profile.times["T4"] = {{1, times(slow)}};
    const Planned planned = tuned_plan("data-parallel", problem).value();
    double best = 1e300;
    for (int own = 1; own < 12; ++own) {
      Plan other = planned.plan;
      other.stages[0].samples = {own, 12 - own};
      best = std::min(best, problem.estimate(other)->step.value());
    }
    CAPTURE(slow);
    CHECK(planned.estimate.step.value() == doctest::Approx(best));
  }
}

}  // namespace
}  // namespace pipewright
