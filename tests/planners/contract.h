// What every planner promises, checked on random small problems, each plan
// simulated.

#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/planners/bounds.h"
#include "pipewright/planners/planner.h"
#include "tests/planners/random_problems.h"

namespace pipewright {

constexpr int kProblems = 1000;

// Every layer in one forward and one backward stage; what feeds a layer lies in
// its stage or before it, which also makes every stage convex.
inline void check_stages(const Plan& plan, const Profile& profile) {
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

inline void check_devices(const Plan& plan, const Cluster& cluster) {
  std::set<DeviceId> seen;
  for (DeviceId device : plan.devices) {
    CHECK(device.value >= 0);
    CHECK(device.value < cluster.num_devices());
    CHECK(seen.insert(device).second);
  }
}

inline void check_promises(const Planned& planned, const Problem& problem) {
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

inline Method method_of(int index) {
  const Method methods[] = {Method::Sync, Method::Sync, Method::Stash,
                            Method::TwoBw, Method::PipeMare};
  return methods[index % 5];
}

inline std::string said(const Result<Planned>& planned) {
  return planned ? to_json(planned->plan).to_text() : planned.error().to_text();
}

struct Tally {
  int problems = 0, plans = 0, refusals = 0;
  std::vector<Seconds> steps;  // of each problem; the largest if refused
};

// The problems of the contract, in the order of their numbers.
class ContractProblems {
 public:
  RandomProblem next() {
    // Mostly small ones, so that there can be many.
    RandomProblem made = random_.next(number_ % 8 == 0 ? 10 : 5);
    made.problem.method = method_of(number_);
    made.problem.threads = number_ % 10 == 0 ? 2 : 1;
    ++number_;
    return made;
  }

 private:
  RandomProblems random_{17};
  int number_ = 0;
};

inline Tally run_contract(const Planner& planner) {
  Tally tally;
  ContractProblems problems;
  for (; tally.problems < kProblems; ++tally.problems) {
    const RandomProblem made = problems.next();
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

}  // namespace pipewright
