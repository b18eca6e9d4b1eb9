// With several stages per worker, each stage behaves as if it were alone.

#include "pipewright/schedules/async_deep.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/lowering/versions.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/schedules/generator.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Schedule alone(int stages, int microbatches) {
  ScheduleRequest request;
  request.workers = stages;
  request.microbatches = microbatches;
  return *generate_schedule("async-1f1b", request);
}

Program lowered(const Schedule& schedule, Method method) {
  const Plan plan = plan_of_schedule(schedule, method, Replication::Split);
  const auto program = lower(plan, chain(schedule.num_stages()));
  REQUIRE_MESSAGE(program.ok(), (program ? "" : program.error().to_text()));
  const auto facts = validate(*program);
  REQUIRE_MESSAGE(facts.ok(), (facts ? "" : facts.error().to_text()));
  return *program;
}

std::vector<ComputeAction> of_stage(const Orders& orders, StageId stage) {
  std::vector<ComputeAction> actions;
  for (const auto& order : orders)
    for (const ComputeAction& action : order)
      if (action.stage == stage) actions.push_back(action);
  return actions;
}

TEST_CASE("each stage has the same order and versions as alone") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const int workers = 1 + static_cast<int>(random() % 4);
    std::vector<int> stages_of;
    int stages = 0;
    for (int w = 0; w < workers; ++w) {
      stages_of.push_back(1 + static_cast<int>(random() % 4));
      stages += stages_of.back();
    }
    const int M = 1 + static_cast<int>(random() % 6);
    const Schedule together = *async_deep_schedule(stages_of, M);
    const Schedule apart = alone(stages, M);
    CHECK(together.num_workers() == workers);
    const int minibatches = together.sections().minibatches_outside + 3;
    REQUIRE(minibatches == apart.sections().minibatches_outside + 3);
    const Orders here = together.unrolled(minibatches);
    const Orders there = apart.unrolled(minibatches);
    for (int s = 0; s < stages; ++s)
      CHECK(of_stage(here, StageId(s)) == of_stage(there, StageId(s)));
    const Progress a = progress_of(here, stages, M, minibatches);
    const Progress b = progress_of(there, stages, M, minibatches);
    CHECK(a.forward == b.forward);
    CHECK(a.backward == b.backward);
    for (Method method : {Method::PipeMare, Method::Stash, Method::Naive})
      CHECK(lowered(together, method).delays == lowered(apart, method).delays);
  }
}

TEST_CASE("107 stages on 2 workers have the delays of 107 workers") {
  const Schedule together = *async_deep_schedule(even_stages(107, 2), 8);
  const Program program = lowered(together, Method::PipeMare);
  CHECK(program.delays == lowered(alone(107, 8), Method::PipeMare).delays);
  for (int s = 0; s < 107; ++s) {
    const StageDelay& delay = program.delays[static_cast<std::size_t>(s)];
    CHECK(delay.forward == doctest::Approx((106 - s) / 8.0));
    CHECK(delay.backward == 0);
  }
}

TEST_CASE("stages are spread evenly, and every worker has one") {
  CHECK(even_stages(107, 2) == std::vector<int>{53, 54});
  CHECK(even_stages(8, 4) == std::vector<int>{2, 2, 2, 2});
  CHECK_FALSE(async_deep_schedule({2, 0}, 1).ok());
}

TEST_CASE("the drawing in the source") {
  const auto text = async_deep_schedule({2, 2}, 1)->to_text();
  CHECK(text.find("0: 0F0 0F1 1F0 0F2 1F1") != std::string::npos);
  CHECK(text.find("0: 0F3 1F2 1B0 0B0") != std::string::npos);
  CHECK(text.find("1: 2F1 3F0 3B0 2B0") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
