// What every planner promises, over every planner there is: run on random
// small problems, each plan simulated.

#include <doctest/doctest.h>

#include <chrono>
#include <iostream>
#include <set>

#include "pipewright/base/json.h"
#include "pipewright/planners/bounds.h"
#include "pipewright/planners/planner.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

constexpr double kSecondsPerPlanner = 1.2;
constexpr int kMostProblems = 1000;

// Every layer in one forward and one backward stage; what feeds a layer lies in
// its stage or before it, which also makes every stage convex.
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
};

Tally run_contract(const Planner& planner) {
  Tally tally;
  RandomProblems random(17);
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         start)
        .count();
  };
  for (; tally.problems < kMostProblems; ++tally.problems) {
    if (tally.problems >= 20 && seconds() > kSecondsPerPlanner) break;
    RandomProblem made = random.next();
    made.problem.method = method_of(tally.problems);
    CAPTURE(tally.problems);
    const auto planned = planner.plan(made.problem);
    if (tally.problems % 5 == 0)
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

}  // namespace

TEST_CASE("every planner keeps the contract on random problems") {
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    const Tally tally = run_contract(*planner);
    std::cout << planner->name() << ": " << tally.problems << " problems, "
              << tally.plans << " plans, " << tally.refusals << " refusals\n";
    CHECK(tally.plans > 0);
    CHECK(tally.problems >= 20);
  }
}

TEST_CASE("names are unique, found again, and a near miss is put right") {
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

TEST_CASE("a planner that finds nothing that fits says what is missing") {
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

}  // namespace pipewright
