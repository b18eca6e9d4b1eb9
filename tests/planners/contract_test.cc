// The contract of a planner, checked for every planner.

#include <doctest/doctest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/devices_needed.h"
#include "pipewright/planners/planner.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

constexpr int kProblems = 1000;

// Every layer is in one forward and one backward stage; the inputs of a layer
// are in its stage or before it, which also makes every stage convex.
void check_stages(const Plan& plan, const Profile& profile) {
  for (auto part : {&Stage::forward, &Stage::backward}) {
    std::vector<int> stage_of(profile.layers.size(), -1);
    for (std::size_t s = 0; s < plan.stages.size(); ++s)
      for (LayerId layer : plan.stages[s].*part) {
        CHECK(stage_of[layer.index()] == -1);
        stage_of[layer.index()] = static_cast<int>(s);
      }
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
      CHECK(stage_of[l] >= 0);
      for (LayerId input : profile.layers[l].inputs)
        CHECK(stage_of[input.index()] <= stage_of[l]);
    }
  }
}

void check_devices(const Plan& plan, const Cluster& cluster) {
  std::set<DeviceId> seen;
  for (DeviceId device : plan.devices) {
    CHECK(device.value >= 0);
    CHECK(device.value < cluster.num_devices());
    CHECK(seen.insert(device).second);
  }
}

void check_promises(const Planned& planned, const Problem& problem) {
  const Plan& plan = planned.plan;
  check_stages(plan, *problem.profile);
  check_devices(plan, *problem.cluster);
  CHECK(plan.minibatch == problem.minibatch);
  CHECK(plan.method == problem.method);
  CHECK(std::count(problem.microbatches.begin(), problem.microbatches.end(),
                   plan.microbatch) == 1);
  const auto again = problem.estimate(plan);
  REQUIRE(again);
  CHECK(again->step == planned.estimate.step);
  CHECK(again->fits);
  for (std::size_t w = 0; w < again->memory.size(); ++w)
    CHECK(again->memory[w] <= problem.memory_of(plan.devices[w]));
  CHECK(lower_bound(problem) <= again->step);
  CHECK(planned.lower_bound <= again->step);
}

Method method_of(int index) {
  const Method methods[] = {Method::Sync, Method::Sync, Method::Stash,
                            Method::TwoBw, Method::PipeMare};
  return methods[index % 5];
}

std::string said(const Result<Planned>& planned) {
  return planned ? to_json(planned->plan).to_text() : planned.error().to_text();
}

struct Tally {
  int problems = 0, plans = 0, refusals = 0;
  std::vector<Seconds> steps;  // of each problem; the largest if refused
};

Tally run_contract(const Planner& planner) {
  Tally tally;
  RandomProblems random(17);
  for (; tally.problems < kProblems; ++tally.problems) {
    // Mostly small problems, so that there can be many.
    RandomProblem made = random.next(tally.problems % 8 == 0 ? 10 : 5);
    made.problem.method = method_of(tally.problems);
    made.problem.threads = tally.problems % 10 == 0 ? 2 : 1;
    CAPTURE(tally.problems);
    const auto planned = planner.plan(made.problem);
    tally.steps.push_back(planned ? planned->estimate.step : Seconds::max());
    if (tally.problems % 20 == 0)
      CHECK(said(planned) == said(planner.plan(made.problem)));
    if (!planned) {
      ++tally.refusals;
      CHECK(planned.error().code == ErrorCode::BadConfiguration);
      CHECK(!planned.error().message.empty());
      continue;
    }
    ++tally.plans;
    check_promises(*planned, made.problem);
  }
  return tally;
}

Cluster at_half_speed(const Cluster& cluster) {
  ClusterBuilder builder(cluster.name());
  for (const DeviceKind& kind : cluster.kinds()) builder.add_kind(kind);
  for (SharedResource resource : cluster.resources()) {
    resource.bandwidth = resource.bandwidth / 2;
    builder.add_resource(resource);
  }
  for (const Device& device : cluster.devices()) builder.add_device(device);
  const int devices = cluster.num_devices();
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b) {
      const Link* link = cluster.link(DeviceId(a), DeviceId(b));
      if (a == b || link == nullptr) continue;
      Link slower = *link;
      slower.bandwidth = slower.bandwidth / 2;
      slower.latency = slower.latency * 2;
      builder.connect(DeviceId(a), DeviceId(b), slower);
    }
  return builder.build().value();
}

}  // namespace

TEST_CASE("every planner keeps the contract, and none is faster than auto") {
  std::map<std::string, Tally> tallies;
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    Tally& tally = tallies[planner->name()];
    tally = run_contract(*planner);
    std::cout << planner->name() << ": " << tally.problems << " problems, "
              << tally.plans << " plans, " << tally.refusals << " refusals\n";
    CHECK(tally.plans > 100);
  }
  const Tally& best = tallies.at("auto");
  CHECK(best.problems == kProblems);
  CHECK(best.plans > 900);
  int better = 0;
  for (std::size_t i = 0; i < best.steps.size(); ++i) {
    CAPTURE(i);
    bool beats_all = best.steps[i] < Seconds::max();
    for (const auto& [name, tally] : tallies) {
      if (name == "auto") continue;
      CAPTURE(name);
      CHECK(best.steps[i] <= tally.steps[i]);
      beats_all = beats_all && best.steps[i] < tally.steps[i];
    }
    better += beats_all;
  }
  CHECK(better > 50);  // the improvement improves
}

// Layers take twice the time, and links are half as fast.
TEST_CASE("at half the speed of everything, plans take twice the time") {
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    RandomProblems random(29);
    for (int i = 0; i < 15; ++i) {
      RandomProblem made = random.next(6);
      Problem& problem = made.problem;
      problem.method = method_of(i);
      const auto before = planner->plan(problem);
      for (auto& [kind, tables] : made.profile->times)
        for (auto& [size, rows] : tables)
          for (LayerTimes& times : rows)
            times = {times.forward * 2, times.backward_input * 2,
                     times.backward_weight * 2, times.update * 2};
      *made.cluster = at_half_speed(*made.cluster);
      problem.estimate = simulating_estimator(problem);
      const auto after = planner->plan(problem);
      REQUIRE(bool(before) == bool(after));
      if (before)
        CHECK(after->estimate.step.value() ==
              doctest::Approx(2 * before->estimate.step.value()).epsilon(1e-9));
    }
  }
}

TEST_CASE("more of anything never raises the lower bound") {
  RandomProblems random(31);
  for (int i = 0; i < 300; ++i) {
    RandomProblem made = random.next(6);
    Problem& problem = made.problem;
    problem.method = method_of(i);
    *made.cluster = load_cluster("2xV100@10MB/s").value();
    problem.memory_limit = Bytes(100'000);
    const Seconds before = lower_bound(problem);
    problem.memory_limit = Bytes(200'000);
    CHECK(lower_bound(problem) <= before);
    problem.memory_limit = Bytes(100'000);
    for (const char* better : {"2xV100@20MB/s", "3xV100@10MB/s"}) {
      *made.cluster = load_cluster(better).value();
      CHECK(lower_bound(problem) <= before);
    }
  }
}

TEST_CASE("names are unique and found, and the nearest name is offered") {
  std::set<std::string> names;
  for (const auto& planner : planners()) {
    CHECK(names.insert(planner->name()).second);
    CHECK(find_planner(planner->name()).value() == planner.get());
    CHECK(!planner->summary().empty());
    CHECK(!planner->source().empty());
  }
  const auto miss = find_planner("pipedraem");
  REQUIRE(!miss);
  CHECK(miss.error().hint == "did you mean \"pipedream\"?");
}

// auto asks every planner that does not itself ask all planners, so there must
// be only one that does.
TEST_CASE("only auto asks all planners") {
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    CHECK((planner->effort() == PlanningEffort::AllPlanners) ==
          (planner->name() == "auto"));
  }
}

TEST_CASE("one planner needs the least memory") {
  CHECK(std::count_if(planners().begin(), planners().end(), [](const auto& p) {
          return p->has_least_memory();
        }) == 1);
  CHECK(least_memory_planner().has_least_memory());
}

TEST_CASE("a planner fails with an error if nothing fits") {
  RandomProblems random(3);
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    RandomProblem made = random.next();
    made.problem.memory_limit = Bytes(1);
    made.problem.estimate = simulating_estimator(made.problem);
    const auto planned = planner->plan(made.problem);
    REQUIRE(!planned);
    CHECK(planned.error().code == ErrorCode::BadConfiguration);
  }
}

TEST_CASE("an error names the need and about how many devices are enough") {
  RandomProblems random(33);
  const Planner& balanced = *find_planner("balanced").value();
  int refused = 0;
  for (int i = 0; i < 200; ++i) {
    RandomProblem made = random.next(8);
    Problem& problem = made.problem;
    *made.cluster = load_cluster("2xV100@100MB/s").value();
    problem.memory_limit = Bytes(random.number(60'000, 500'000));
    problem.estimate = simulating_estimator(problem);
    const auto planned = balanced.plan(problem);
    if (planned) continue;
    CHECK(planned.error().message.find("no plan of balanced fits ") == 0);
    CHECK(planned.error().message.find(" at best") != std::string::npos);
    const int devices = devices_needed(problem, true);
    if (devices <= 2) continue;
    ++refused;
    CHECK(planned.error().hint.find("about " + std::to_string(devices) +
                                    " devices with recompute") == 0);
  }
  CHECK(refused > 3);
}

}  // namespace pipewright
