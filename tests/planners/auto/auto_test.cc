// auto compared with every pipeline of the same problems, with several numbers
// of threads, and at the end of its time limit.

#include <doctest/doctest.h>

#include <atomic>

#include "pipewright/base/json.h"
#include "pipewright/estimate/copies_estimator.h"
#include "tests/answer.h"
#include "tests/planners/every_pipeline.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

const Planner& automatic() { return *find_planner("auto").value(); }

}  // namespace

TEST_CASE("auto finds the best of every pipeline, or nearly") {
  RandomProblems random(42);
  int solved = 0, best_found = 0;
  for (int i = 0; i < 80; ++i) {
    RandomProblem made = random.next(4);
    if (made.cluster->num_devices() > 3) continue;
    const Seconds fastest = fastest_pipeline(made.problem);
    const auto best = automatic().plan(made.problem);
    if (fastest == Seconds::max()) continue;
    REQUIRE(best);
    ++solved;
    best_found += best->estimate.step <= fastest;
    CHECK(best->estimate.step.value() <= 1.1 * fastest.value());
  }
  CHECK(solved > 30);
  CHECK(best_found >= solved * 9 / 10);
}

TEST_CASE("the number of threads does not change the plan") {
  RandomProblems random(43);
  for (int i = 0; i < 8; ++i) {
    RandomProblem made = random.next();
    std::string said;
    for (int threads : {1, 2, 5}) {
      made.problem.threads = threads;
      const auto planned = automatic().plan(made.problem);
      const std::string now =
          planned ? to_json(planned->plan).to_text() + planned->why
                  : planned.error().to_text();
      if (threads == 1) said = now;
      CHECK(now == said);
    }
  }
}

// A budget limits the work of planners and search, so that it does not matter
// how fast they are.
TEST_CASE("within a budget, the number of threads does not change the plan") {
  RandomProblems random(46);
  int stopped = 0;
  for (int i = 0; i < 8; ++i) {
    RandomProblem made = random.next();
    std::string said;
    for (const double budget : {0.001, 0.05, 5.0})
      for (int threads : {1, 2, 4}) {
        made.problem.budget = Seconds(budget);
        made.problem.threads = threads;
        const auto planned = automatic().plan(made.problem);
        const std::string now =
            planned ? to_json(planned->plan).to_text() + planned->why
                    : planned.error().to_text();
        stopped += contains(now, "did not finish in ");
        if (threads == 1) said = now;
        CHECK(now == said);
      }
  }
  CHECK(stopped > 0);
}

TEST_CASE("a plan is never worse than that of a cheap planner") {
  RandomProblems random(47);
  for (int i = 0; i < 20; ++i) {
    RandomProblem made = random.next();
    made.problem.budget = Seconds(0.001);
    const auto best = automatic().plan(made.problem);
    for (const auto& planner : planners()) {
      if (planner->effort() != PlanningEffort::FixedShape &&
          planner->effort() != PlanningEffort::Linear)
        continue;
      const auto single = planner->plan(made.problem);
      if (!single || !single->estimate.fits) continue;
      CAPTURE(planner->name());
      REQUIRE(best);
      CHECK(best->estimate.step <= single->estimate.step);
    }
  }
}

TEST_CASE("when the budget runs out, the plan says so") {
  RandomProblems random(48);
  int said = 0;
  for (int i = 0; i < 10; ++i) {
    RandomProblem made = random.next();
    made.problem.budget = Seconds(7);
    made.problem.is_over_ = [] { return true; };
    const auto planned = automatic().plan(made.problem);
    if (planned) said += contains(planned->why, "The budget of 7 s ran out");
  }
  CHECK(said > 5);
}

TEST_CASE("at the time limit the best plan so far is returned") {
  RandomProblems random(44);
  int planned = 0;
  for (int i = 0; i < 10; ++i) {
    RandomProblem made = random.next();
    const auto full = automatic().plan(made.problem);
    std::atomic<int> asked = 0;
    made.problem.is_over_ = [&] { return ++asked > 3; };
    const auto short_of_time = automatic().plan(made.problem);
    if (!full || !short_of_time) continue;
    ++planned;
    CHECK(full->estimate.step <= short_of_time->estimate.step);
  }
  CHECK(planned > 3);
}

TEST_CASE("many equal hosts are planned as one") {
  RandomProblems random(45);
  RandomProblem made = random.next();
  *made.cluster = load_cluster("32x4xV100@50MB/s/20MB/s").value();
  Problem& problem = made.problem;
  problem.memory_limit = Bytes(0);
  problem.minibatch = 512;
  problem.microbatches = {128, 256, 512};
  problem.estimate = simulating_estimator(problem);
  problem.estimate_copies = copies_estimator(problem);
  const auto planned = automatic().plan(problem);
  REQUIRE(planned);
  CHECK(planned->plan.devices.size() == 128);
  const auto again = problem.estimate(planned->plan);
  REQUIRE(again);
  CHECK(again->step == planned->estimate.step);
  CHECK(again->memory == planned->estimate.memory);
  CHECK(again->traffic == planned->estimate.traffic);
}

TEST_CASE("hosts whose number divides no minibatch are used, too") {
  RandomProblems random(46);
  for (int i = 0; i < 3; ++i) {
    RandomProblem made = random.next(6);
    Problem& problem = made.problem;
    problem.memory_limit = Bytes(0);
    problem.budget = Seconds(1);
    problem.minibatch = 256;
    problem.microbatches = {64, 128, 256};
    const auto best_on = [&](int hosts) {
      const std::string text = std::to_string(hosts) + "x2xV100@50MB/s/20MB/s";
      *made.cluster = load_cluster(text).value();
      set_estimators(problem);
      return automatic().plan(problem);
    };
    const auto even = best_on(64);
    REQUIRE(even);
    for (int hosts : {65, 95}) {
      CAPTURE(i);
      CAPTURE(hosts);
      const auto more = best_on(hosts);
      REQUIRE(more);
      CHECK(more->estimate.step <= even->estimate.step);
      const auto again = problem.estimate(more->plan);
      REQUIRE(again);
      CHECK(again->fits);
      CHECK(again->step == more->estimate.step);
    }
  }
}

TEST_CASE("layers with most of the weights get hosts of their own") {
  RandomProblems random(49);
  RandomProblem made = random.next();
  *made.cluster = load_cluster("128x1xV100@50MB/s/20MB/s").value();
  keep_two_layers(*made.profile, Bytes(10'000'000));
  const Seconds zero(0);
  made.profile->sizes = {
      {1, {{Bytes(1000), Bytes(0), Bytes(0)}, {Bytes(4), Bytes(0), Bytes(0)}}}};
  made.profile->times = {{"V100",
                          {{1,
                            {{Seconds(1e-3), zero, Seconds(2e-3), zero},
                             {zero, zero, zero, zero}}}}}};
  Problem& problem = made.problem;
  problem.memory_limit = Bytes(0);
  problem.minibatch = 512;
  problem.microbatches = {64, 128, 256, 512};
  problem.estimate = simulating_estimator(problem);
  problem.estimate_copies = copies_estimator(problem);
  const auto planned = automatic().plan(problem);
  REQUIRE(planned);
  REQUIRE(planned->plan.num_stages() == 2);
  CHECK(planned->plan.stages[1].workers.size() == 4);
  // In copies of a pipeline of 16 hosts the sum is over 8 hosts and takes
  // 2 * 7/8 * 10 MB / 20 MB/s = 0.88 s; over 4 of them 0.75 s.
  CHECK(planned->estimate.step < Seconds(0.8));
  const auto again = problem.estimate(planned->plan);
  REQUIRE(again);
  CHECK(again->step == planned->estimate.step);
  CHECK(again->memory == planned->estimate.memory);
}

TEST_CASE("hosts take turns where samples cannot be divided evenly") {
  RandomProblems random(50);
  RandomProblem made = random.next();
  *made.cluster = load_cluster("128x1xV100@1GB/s/1GB/s").value();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(60'000'000));
  profile.parameters.push_back({"heavy, too", Bytes(60'000'000)});
  profile.layers[0].parameters = {ParameterId(1)};
  const Seconds zero(0), one(1e-3);
  // Five eighths of the work are the second layer's, so that of 16 hosts 10
  // should hold it: of 32 samples each would have three or four.
  profile.sizes = {
      {1, {{Bytes(1000), Bytes(0), Bytes(0)}, {Bytes(4), Bytes(0), Bytes(0)}}}};
  profile.times = {{"V100",
                    {{1,
                      {{one * 3, zero, one * 3, zero},
                       {one * 4, one * 3, one * 3, zero}}}}}};
  Problem& problem = made.problem;
  problem.memory_limit = Bytes(0);
  problem.minibatch = 1024;
  problem.microbatches = {64, 128, 256, 512, 1024};
  set_estimators(problem);
  const auto split = automatic().plan(problem);
  problem.microbatches.insert(problem.microbatches.begin(), 1);
  const auto planned = automatic().plan(problem);
  REQUIRE(split);
  REQUIRE(planned);
  CHECK(planned->plan.replication == Replication::Rotate);
  CHECK(planned->plan.microbatch == 1);
  CHECK(planned->estimate.step < split->estimate.step);
  const auto again = problem.estimate(planned->plan);
  REQUIRE(again);
  CHECK(again->step == planned->estimate.step);
  CHECK(again->memory == planned->estimate.memory);
}

}  // namespace pipewright
