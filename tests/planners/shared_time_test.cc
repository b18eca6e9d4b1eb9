#include "pipewright/planners/shared_time.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/planners/plan_in_time.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

TEST_CASE("searches in a row end by the limit, whatever each one takes") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> share(0, 1);
  for (int i = 0; i < 200; ++i) {
    double now = 100 * share(random);
    const double limit = 0.5 + share(random), begin = now;
    const int turns = 1 + static_cast<int>(20 * share(random));
    SharedTime time(Seconds(limit), turns, 1, [&] { return now; });
    for (int turn = 0; turn < turns; ++turn) {
      const double part = time.take(1).value();
      // An even part of what is left.
      CHECK(part == doctest::Approx((begin + limit - now) / (turns - turn)));
      now += share(random) < 0.3 ? 0 : part;
    }
    CHECK(now <= begin + limit + 1e-9);
  }
}

TEST_CASE("searches side by side get more, and end by the limit too") {
  double now = 0;
  SharedTime time(Seconds(6), 6, 2, [&] { return now; });
  CHECK(time.take(1).value() == doctest::Approx(2));
  CHECK(time.take(1).value() == doctest::Approx(6 * 2.0 / 5));
  now = 2;  // both are done
  CHECK(time.take(1).value() == doctest::Approx(4 * 2.0 / 4));
  CHECK(time.take(1).value() == doctest::Approx(4 * 2.0 / 3));
  now = 5;
  CHECK(time.take(1).value() == doctest::Approx(1));
  CHECK(time.take(1).value() == doctest::Approx(1));
}

TEST_CASE("weights, and a limit that is over") {
  double now = 0;
  SharedTime time(Seconds(9), 9, 1, [&] { return now; });
  CHECK(time.take(6).value() == doctest::Approx(6));
  CHECK(time.take(1).value() == doctest::Approx(3));
  now = 10;
  CHECK(time.take(1) == Seconds(1e-3));
  CHECK(time.take(1) == Seconds(1e-3));
}

TEST_CASE("all planners end by a limit that they share") {
  // Each estimate takes 0.01 s of a clock that nothing else moves.
  constexpr double kEstimate = 0.01, kLimit = 0.3;
  RandomProblems random(95);
  int num_cut_short = 0;
  for (int i = 0; i < 20; ++i) {
    RandomProblem made = random.next();
    Problem problem = made.problem;
    double now = 0;
    problem.threads = 1;
    problem.estimate = [&, estimate = problem.estimate](const Plan& plan) {
      now += kEstimate;
      return estimate(plan);
    };
    double late = 0;
    SharedTime time(Seconds(kLimit), static_cast<double>(planners().size()), 1,
                    [&] { return now; });
    for (const auto& planner : planners()) {
      if (planner->effort() == PlanningEffort::AllPlanners) continue;
      const double end = now + time.take(1).value();
      problem.is_over_ = [&now, end] { return now > end; };
      static_cast<void>(plan_in_time(*planner, problem));
      // The last estimate in time may end late; without a plan two follow.
      CAPTURE(planner->name());
      CHECK(now <= end + 3 * kEstimate + 1e-9);
      late += std::max(0.0, now - end);
      num_cut_short += now > end;
    }
    CHECK(now <= kLimit + late + 1e-9);
  }
  CHECK(num_cut_short > 20);
}

}  // namespace
}  // namespace pipewright
