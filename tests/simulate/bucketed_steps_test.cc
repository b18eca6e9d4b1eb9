// Gradients summed in buckets, on the simulator: a step by hand, and what holds
// for every plan.

#include <doctest/doctest.h>

#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/memory_bound.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/simulate/costs.h"
#include "pipewright/simulate/simulate.h"
#include "tests/plan/chain.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

// Two layers with 4 MB of weights each, on two workers with one sample each.
Plan two_replicas() {
  ScheduleRequest request;
  request.workers = 1;
  request.microbatches = 1;
  Plan plan =
      plan_of_schedule(with_replicas(generate_schedule("1f1b", request).value(),
                                     {2}, Replication::Split)
                           .value(),
                       Method::Sync, Replication::Split);
  plan.minibatch = plan.microbatch = 2;
  plan.stages[0].forward = plan.stages[0].backward = {LayerId(0), LayerId(1)};
  return plan;
}

double seconds_of(const Plan& plan, const Profile& profile,
                  const Cluster& cluster) {
  const Program program = lower(plan, profile).value();
  REQUIRE(validate(program));
  return simulate(program, costs_of(program, profile, cluster).value())
      .duration.value();
}

// A ring of two sends the bytes once over each link: 4 s per layer at 1 MB/s.
// A forward of a layer takes 1 s, its backward 2 s, its update 1 s.
//
//   whole:    F F B B B B | 8 s for both | U U          16 s
//   buckets:  F F B B     | layer 1        | U
//                     B B |                | layer 0        | U
//             0       4   6                8 9              12 13 s
TEST_CASE("the sum of the last layers runs beside the backward of the first") {
  Profile profile = chain(2);
  for (ProfileParameter& parameter : profile.parameters)
    parameter.bytes = Bytes(4'000'000);
  for (auto& [kind, tables] : profile.times)
    for (auto& [microbatch, rows] : tables)
      for (LayerTimes& row : rows) row.update = Seconds(1);
  const Cluster cluster = load_cluster("2xcpu@1MB/s").value();
  const Plan plan = two_replicas();
  const Plan cut = with_buckets(plan, profile, Bytes(4'000'000)).value();
  REQUIRE(cut.num_stages() == 2);
  CHECK(seconds_of(plan, profile, cluster) ==
        doctest::Approx(16).epsilon(1e-4));
  CHECK(seconds_of(cut, profile, cluster) == doctest::Approx(13).epsilon(1e-4));
}

Bytes largest_bound(const Plan& plan, const Profile& profile) {
  Bytes largest;
  for (const MemoryBound& bound : memory_bounds(*lower(plan, profile)))
    largest = std::max(largest, bound.peak.total());
  return largest;
}

Bytes largest_output(const Profile& profile, int microbatch) {
  const std::vector<LayerSizes> layers =
      sizes_at(profile, microbatch, Outside::Extrapolate).value();
  Bytes largest;
  for (const LayerSizes& sizes : layers)
    largest = std::max(largest, sizes.output);
  return largest;
}

// The bound counts a gradient between two buckets until the first of them is
// done: at most one tensor more.
TEST_CASE("buckets obey the bounds of time and memory") {
  RandomProblems random(123);
  int cut = 0, faster = 0;
  for (int i = 0; i < 300; ++i) {
    RandomProblem made = random.next(6);
    made.problem.threads = 1;
    for (const char* name : {"data-parallel", "pipedream", "dapple"}) {
      const auto planned = find_planner(name).value()->plan(made.problem);
      if (!planned) continue;
      const Plan plan =
          with_buckets(planned->plan, *made.profile, Bytes(1)).value();
      if (plan.num_stages() == planned->plan.num_stages()) continue;
      CAPTURE(i);
      CAPTURE(name);
      const auto estimate = made.problem.estimate(plan);
      REQUIRE(estimate);
      CHECK(lower_bound(made.problem) <= estimate->step);
      CHECK(largest_bound(plan, *made.profile) <=
            largest_bound(planned->plan, *made.profile) +
                largest_output(*made.profile, plan.microbatch));
      ++cut;
      faster += estimate->step < planned->estimate.step;
    }
  }
  MESSAGE(cut, " plans in buckets, ", faster, " of them faster");
  CHECK(cut > 100);
  CHECK(faster > cut / 2);
}

}  // namespace
}  // namespace pipewright
