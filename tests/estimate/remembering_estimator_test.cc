// An estimator that remembers: the same answers, and no plan is simulated
// twice, whoever made it.

#include "pipewright/estimate/remembering_estimator.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

struct CountedEstimates {
  explicit CountedEstimates(Problem& problem) : plain(problem.estimate) {
    problem.estimate = [this](const Plan& plan) {
      ++calls;
      return plain(plan);
    };
    remember_estimates(problem);
  }

  Estimator plain;
  std::atomic<int> calls = 0;
};

bool are_equal(const Estimate& a, const Estimate& b) {
  return a.step == b.step && a.bubble == b.bubble && a.memory == b.memory &&
         a.traffic == b.traffic && a.staleness == b.staleness &&
         a.fits == b.fits;
}

// Plans that differ from this one in one thing each.
std::vector<Plan> neighbours_of(const Plan& plan) {
  const std::vector<std::function<void(Plan&)>> changes = {
      [](Plan& p) { p.model += "x"; },
      [](Plan& p) { p.method = Method::Stash; },
      [](Plan& p) { p.minibatch *= 2; },
      [](Plan& p) { p.microbatch *= 2; },
      [](Plan& p) { p.replication = Replication::Rotate; },
      [](Plan& p) { p.optimizer_words += 1; },
      [](Plan& p) { p.number_type += "x"; },
      [](Plan& p) { p.devices.front() = DeviceId(99); },
      [](Plan& p) { p.device_kinds.push_back("x"); },
      [](Plan& p) { p.stages.front().recompute ^= true; },
      [](Plan& p) { p.stages.front().continues ^= true; },
      [](Plan& p) { p.stages.front().bucket ^= true; },
      [](Plan& p) { p.stages.front().samples.push_back(1); },
      [](Plan& p) { p.stages.front().workers.push_back(WorkerId(0)); },
      [](Plan& p) { p.stages.front().forward.pop_back(); },
      [](Plan& p) { p.stages.front().backward.pop_back(); },
      [](Plan& p) { p.schedule = Schedule(); }};
  std::vector<Plan> all;
  for (const auto& change : changes) {
    all.push_back(plan);
    change(all.back());
  }
  return all;
}

}  // namespace

TEST_CASE("an estimator that remembers answers as one that does not") {
  RandomProblems random(71);
  int hits = 0, plans = 0;
  for (int i = 0; i < 100; ++i) {
    auto made = random.next();
    CountedEstimates counted(made.problem);
    std::vector<Planned> found;
    for (const auto& planner : planners())
      if (planner->effort() <= PlanningEffort::Linear)
        if (auto planned = planner->plan(made.problem)) {
          CHECK(are_equal(planned->estimate, *counted.plain(planned->plan)));
          found.push_back(*std::move(planned));
        }
    const int before = counted.calls;
    for (Planned& planned : found) {
      planned.plan.planner = "another";
      CHECK(are_equal(planned.estimate, *made.problem.estimate(planned.plan)));
    }
    CHECK(counted.calls == before);
    plans += static_cast<int>(found.size());
    hits += !found.empty();
  }
  CHECK(hits > 50);
  CHECK(plans > 200);
}

TEST_CASE("plans that differ in one thing are different plans") {
  RandomProblems random(72);
  auto made = random.next();
  auto planned = find_planner("balanced").value()->plan(made.problem);
  while (!planned) {
    made = random.next();
    planned = find_planner("balanced").value()->plan(made.problem);
  }
  int calls = 0;
  const Estimator remembering =
      remembering_estimator([&calls](const Plan&) -> Result<Estimate> {
        ++calls;
        return Estimate{};
      });
  CHECK(remembering(planned->plan));
  for (const Plan& plan : neighbours_of(planned->plan))
    for (int time = 0; time < 2; ++time) CHECK(remembering(plan));
  CHECK(calls == 1 + static_cast<int>(neighbours_of(planned->plan).size()));
}

TEST_CASE("failures are not remembered") {
  int calls = 0;
  const Estimator remembering =
      remembering_estimator([&calls](const Plan&) -> Result<Estimate> {
        if (++calls < 3) return bad_configuration("the time is over");
        return Estimate{};
      });
  const Plan plan;
  CHECK_FALSE(remembering(plan));
  CHECK_FALSE(remembering(plan));
  CHECK(remembering(plan));
  CHECK(remembering(plan));
  CHECK(calls == 3);
}

TEST_CASE("an estimator of the problem's own costs remembers too") {
  RandomProblems random(73);
  auto made = random.next();
  set_estimators(made.problem);
  const CountedEstimates counted(made.problem);
  const Problem& problem = made.problem;
  const Plan plan;
  const auto own = problem.estimator_for(*problem.profile, *problem.cluster,
                                         problem.memory_limit);
  const int before = counted.calls;
  CHECK_FALSE(own(plan));
  CHECK(counted.calls == before + 1);
  const Profile other = *problem.profile;
  CHECK_FALSE(problem.estimator_for(other, *problem.cluster,
                                    problem.memory_limit)(plan));
  CHECK(counted.calls == before + 1);
}

TEST_CASE("threads share what is remembered") {
  RandomProblems random(74);
  auto made = random.next();
  auto planned = find_planner("balanced").value()->plan(made.problem);
  while (!planned) {
    made = random.next();
    planned = find_planner("balanced").value()->plan(made.problem);
  }
  const Estimator remembering = remembering_estimator(made.problem.estimate);
  std::vector<char> right(4, 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < right.size(); ++t)
      threads.emplace_back([&, t] {
        right[t] = 1;
        for (int i = 0; i < 20; ++i)
          if (!are_equal(*remembering(planned->plan), planned->estimate))
            right[t] = 0;
      });
  }
  for (char each : right) CHECK(each == 1);
}

}  // namespace pipewright
