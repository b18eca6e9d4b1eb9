// Planners at their time limit: a fake clock that ends after a number of looks,
// and counted estimates.

#include "pipewright/planners/plan_in_time.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>

#include "pipewright/base/interruption.h"
#include "pipewright/base/text.h"
#include "tests/answer.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

// Counts the estimates of a problem before and after the time limit, which is
// the given number of looks at the clock. The problem runs on one thread.
struct Clock {
  int looks_left = 0;
  int before = 0, late = 0, late_with_plan = 0;
  bool has_plan = false;

  void watch(Problem& problem, int looks) {
    *this = Clock{};
    looks_left = looks;
    problem.threads = 1;
    problem.is_over_ = [this] { return looks_left-- <= 0; };
    problem.estimate = [this, estimate = problem.estimate](const Plan& plan) {
      const bool is_late = looks_left < 0;
      ++(is_late ? late : before);
      late_with_plan += is_late && has_plan;
      const Result<Estimate> result = estimate(plan);
      has_plan = has_plan || (result && result->fits);
      return result;
    };
  }
};

bool is_single(const Planner& planner) {
  return planner.effort() != PlanningEffort::AllPlanners;
}

}  // namespace

TEST_CASE("after the time limit no planner goes on estimating") {
  RandomProblems random(91);
  int ended_early = 0;
  for (int i = 0; i < 30; ++i) {
    RandomProblem made = random.next();
    for (const auto& planner : planners()) {
      if (!is_single(*planner)) continue;
      CAPTURE(i);
      CAPTURE(planner->name());
      Problem problem = made.problem;
      Clock clock;
      clock.watch(problem, 1'000'000);
      const auto full = plan_in_time(*planner, problem);
      const int needed = clock.before;
      for (const int looks : {0, 1, 3, 10}) {
        problem = made.problem;
        clock.watch(problem, looks);
        const auto planned = plan_in_time(*planner, problem);
        CHECK(clock.late <= 2);
        CHECK(clock.late_with_plan == 0);
        CHECK(bool(planned) == clock.has_plan);
        if (planned && full)
          CHECK(full->estimate.step <= planned->estimate.step);
        ended_early += clock.before + clock.late < needed;
      }
    }
  }
  CHECK(ended_early > 100);
}

TEST_CASE("a planner without a plan at its time limit says so") {
  RandomProblems random(92);
  RandomProblem made = random.next();
  Problem& problem = made.problem;
  problem.budget = Seconds(3);
  problem.microbatches = {1, 2, 4, 8};
  problem.memory_limit = Bytes(1);
  // Weights that do not fit are seen without an estimate: there are none.
  for (auto& parameter : made.profile->parameters) parameter.bytes = Bytes(0);
  problem.estimate = simulating_estimator(problem);
  Clock clock;
  clock.watch(problem, 0);
  const auto planned = plan_in_time(*find_planner("uniform").value(), problem);
  REQUIRE(!planned);
  CHECK(clock.late == 2);
  CHECK(contains(planned.error().to_text(), "the budget ended before a plan"));
  CHECK(contains(planned.error().to_text(), "--budget 3"));
  // What the two that were tried need is said, too.
  CHECK(contains(planned.error().to_text(), "fits 1 B: stage "));
  CHECK(contains(planned.error().to_text(), "with recompute, at microbatch 1"));
}

TEST_CASE("a planner that the user interrupts does not blame the budget") {
  RandomProblems random(92);
  RandomProblem made = random.next();
  Problem& problem = made.problem;
  problem.budget = Seconds(60);
  problem.is_interrupted_ = [] { return true; };
  for (const auto& planner : planners()) {
    CAPTURE(planner->name());
    Clock clock;
    clock.watch(problem, 0);
    const auto planned = plan_in_time(*planner, problem);
    const std::string said = planned ? planned->why + join(planned->notes, "; ")
                                     : planned.error().to_text();
    CHECK(!contains(said, "budget"));
  }
  problem.memory_limit = Bytes(1);
  for (auto& parameter : made.profile->parameters) parameter.bytes = Bytes(0);
  problem.estimate = simulating_estimator(problem);
  Clock clock;
  clock.watch(problem, 0);
  const auto planned = plan_in_time(*find_planner("uniform").value(), problem);
  REQUIRE(!planned);
  CHECK(contains(planned.error().to_text(), "interrupted before a plan"));
}

TEST_CASE("auto asks only cheap planners after the time limit") {
  RandomProblems random(93);
  const Planner& automatic = *find_planner("auto").value();
  int planned_late = 0;
  for (int i = 0; i < 10; ++i) {
    RandomProblem made = random.next();
    Problem problem = made.problem;
    Clock clock;
    clock.watch(problem, 0);
    const auto planned = automatic.plan(problem);
    planned_late += bool(planned);
    std::ptrdiff_t cheap = std::count_if(
        planners().begin(), planners().end(), [](const auto& planner) {
          return planner->effort() == PlanningEffort::FixedShape ||
                 planner->effort() == PlanningEffort::Linear;
        });
    CHECK(clock.late <= 2 * cheap + 1);
    CHECK(clock.before == 0);
  }
  CHECK(planned_late > 5);
}

// A plan's estimate may take seconds. It looks at the clock at least once per
// worker, and ends wherever the time is over.
TEST_CASE("the estimate of a plan can be ended in the middle") {
  RandomProblems random(95);
  for (int i = 0; i < 20; ++i) {
    RandomProblem made = random.next();
    const auto planned = find_planner("uniform").value()->plan(made.problem);
    if (!planned) continue;
    const auto ends_at_look = [&](int last) {
      int looks = 0;
      const bool is_done = interruptible(
          [&] { return ++looks == last; },
          [&] { return made.problem.estimate(planned->plan).ok(); },
          [] { return false; });
      return std::pair(is_done, looks);
    };
    const auto [is_done, looks] = ends_at_look(-1);
    CHECK(is_done);
    CHECK(looks >= planned->plan.num_workers());
    for (const int last : {1, (looks + 1) / 2, looks})
      CHECK(ends_at_look(last) == std::pair(false, last));
  }
}

TEST_CASE("of a model with thousands of layers auto asks one planner then") {
  RandomProblems random(94);
  RandomProblem made = random.next(6000);
  while (made.profile->num_layers() <= 2000) made = random.next(6000);
  Problem& problem = made.problem;
  problem.memory_limit = Bytes(0);
  problem.estimate = simulating_estimator(problem);
  Clock clock;
  clock.watch(problem, 0);
  const auto planned = find_planner("auto").value()->plan(problem);
  REQUIRE(planned);
  CHECK(clock.late == 1);
}

}  // namespace pipewright
