// Pipelines that are known not to fit: none of them does, with or without
// recompute and buckets.

#include "pipewright/planners/state_memory.h"

#include <doctest/doctest.h>

#include "pipewright/planners/tuned_replicas.h"
#include "tests/planners/every_pipeline.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

struct FitCounts {
  int too_large = 0, others_that_do_not_fit = 0, fit = 0;
};

void check_every_pipeline(Problem problem, FitCounts& counts) {
  problem.bucket = Bytes(20'000);
  const Problem tuned = with_tuned_replicas(problem);
  EveryPipeline(problem, [&](const Pipeline& plain) {
    for (Replication way : {Replication::Split, Replication::Rotate}) {
      Pipeline pipeline = plain;
      pipeline.replication = way;
      const auto made = planned(pipeline, tuned, "test");
      if (!made) continue;
      const bool is_too_large = states_exceed_memory(pipeline, problem);
      if (is_too_large) CHECK_FALSE(made->estimate.fits);
      counts.too_large += is_too_large;
      counts.others_that_do_not_fit += !is_too_large && !made->estimate.fits;
      counts.fit += made->estimate.fits;
    }
  }).run();
}

}  // namespace

TEST_CASE("what is known not to fit does not fit") {
  RandomProblems random(88);
  FitCounts counts;
  for (int i = 0; i < 60; ++i) {
    auto made = random.next(4);
    made.problem.memory_limit = Bytes(random.number(20'000, 600'000));
    made.problem.estimate = simulating_estimator(made.problem);
    if (random.chance(3)) made.problem.method = Method::TwoBw;
    check_every_pipeline(made.problem, counts);
  }
  CHECK(counts.too_large > 500);
  CHECK(counts.others_that_do_not_fit > 100);
  CHECK(counts.fit > 500);
}

}  // namespace pipewright
