// The memory bound against simulated peaks: never below, whatever the times,
// and near where a transfer can be slow.

#include "pipewright/plan/memory/memory_bound.h"

#include <doctest/doctest.h>

#include <limits>
#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/simulate/simulate.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Program random_program(std::mt19937& random) {
  const auto& all = schedule_generators();
  for (;;) {
    ScheduleRequest request;
    request.workers = 1 + static_cast<int>(random() % 5);
    request.microbatches = 1 + static_cast<int>(random() % 10);
    request.stages_per_worker = 1 + static_cast<int>(random() % 3);
    const auto& generator = all[random() % all.size()];
    auto schedule = generate_schedule(generator.name, request);
    if (!schedule) continue;
    const Method method =
        schedule->is_asynchronous() ? Method::Stash : Method::Sync;
    LowerOptions options;
    options.window = 1 + static_cast<int>(random() % 5);
    auto program =
        lower(plan_of_schedule(*schedule, method, Replication::Rotate),
              chain(schedule->num_stages()), options);
    REQUIRE(program.ok());
    REQUIRE(validate(*program).ok());
    return *std::move(program);
  }
}

Costs random_costs(const Program& program, std::mt19937& random) {
  const auto seconds = [&random] {
    return Seconds(random() % 3 ? static_cast<double>(random() % 20) : 0);
  };
  Costs costs;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    Costs::OperationCost cost;
    for (Seconds& time : cost.compute) time = seconds();
    costs.operations.push_back(cost);
  }
  for (std::size_t i = 0; i < program.transfers.size(); ++i) {
    Costs::TransferCost cost;
    cost.latency = seconds();
    cost.bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity());
    costs.transfers.push_back(cost);
  }
  costs.reductions.resize(program.reductions.size());
  return costs;
}

TEST_CASE("no simulated peak is above the bound, and some reach it") {
  std::mt19937 random(11);
  int reached = 0, workers = 0;
  Bytes all_peaks, all_bounds;
  for (int round = 0; round < 300; ++round) {
    const Program program = random_program(random);
    const auto bounds = memory_bounds(program);
    std::vector<Bytes> most(bounds.size(), Bytes(0));
    for (int trial = 0; trial < 8; ++trial) {
      SimulateOptions options;
      options.keep_spans = false;
      options.minibatches = program.minibatches_outside + 3;
      const Timeline timeline =
          simulate(program, random_costs(program, random), options);
      for (std::size_t w = 0; w < bounds.size(); ++w)
        most[w] = std::max(most[w], timeline.workers[w].peak.total());
    }
    for (std::size_t w = 0; w < bounds.size(); ++w, ++workers) {
      CHECK(most[w] <= bounds[w].peak.total());
      reached += most[w] == bounds[w].peak.total();
      all_peaks += most[w];
      all_bounds += bounds[w].peak.total();
    }
  }
  // Transfers, most of what a stage of one layer holds, cannot all be at their
  // worst at once; but the bound is no idle one: a few random trials come near.
  CHECK(6 * reached > workers);
  CHECK(all_peaks.value() > 0.75 * all_bounds.value());
}

TEST_CASE("a worker alone holds exactly its bound") {
  ScheduleRequest request;
  request.microbatches = 5;
  const auto schedule = generate_schedule("gpipe", request);
  Profile profile = chain(1);
  profile.sizes[1][0].keeps_private = Bytes(10);
  const auto program = lower(
      plan_of_schedule(*schedule, Method::Sync, Replication::Split), profile);
  REQUIRE(program.ok());
  const MemoryBound bound = memory_bounds(*program).front();
  std::mt19937 random(1);
  const Timeline timeline = simulate(*program, random_costs(*program, random));
  CHECK(bound.peak == timeline.workers[0].peak);
  CHECK(bound.microbatches == 5);
}

TEST_CASE("too little memory: the worker, the moment, what it consists of") {
  ScheduleRequest request;
  request.workers = 3;
  request.microbatches = 6;
  const auto schedule = generate_schedule("1f1b", request);
  const auto program = lower(
      plan_of_schedule(*schedule, Method::Sync, Replication::Split), chain(3));
  REQUIRE(program.ok());
  const auto bounds = memory_bounds(*program);
  std::vector<Bytes> limits;
  for (const MemoryBound& bound : bounds) limits.push_back(bound.peak.total());
  CHECK(check_memory(*program, limits).ok());
  for (std::size_t w = 0; w < limits.size(); ++w) {
    auto less = limits;
    less[w] -= Bytes(1);
    const auto answer = check_memory(*program, less);
    REQUIRE(!answer.ok());
    const std::string text = answer.error().to_text();
    CHECK(answer.error().code == ErrorCode::BadConfiguration);
    CHECK(text.find("worker " + std::to_string(w)) != std::string::npos);
    CHECK(text.find("activations") != std::string::npos);
    CHECK(text.find(to_text(bounds[w].action)) != std::string::npos);
  }
}

}  // namespace
}  // namespace pipewright
