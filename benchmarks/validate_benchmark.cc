// Lowering and validating: actions per second on programs of about a million
// actions. Goal: a million validated in at most a second.

#include <benchmark/benchmark.h>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Plan large_plan(const std::string& name, int workers, int microbatches) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  return plan_of_schedule(*generate_schedule(name, request), Method::Sync,
                          Replication::Split);
}

void lower_million(benchmark::State& state, const std::string& name,
                   int workers, int microbatches) {
  const Plan plan = large_plan(name, workers, microbatches);
  const Profile profile = chain(plan.num_stages());
  for (auto _ : state) benchmark::DoNotOptimize(lower(plan, profile));
}

void validate_million(benchmark::State& state, const std::string& name,
                      int workers, int microbatches) {
  const Plan plan = large_plan(name, workers, microbatches);
  const Program program = *lower(plan, chain(plan.num_stages()));
  std::int64_t actions = 0;
  for (auto _ : state) actions += validate(program)->num_actions;
  state.counters["actions"] = static_cast<double>(
      actions / static_cast<std::int64_t>(state.iterations()));
  state.counters["actions/s"] = benchmark::Counter(static_cast<double>(actions),
                                                   benchmark::Counter::kIsRate);
}

BENCHMARK_CAPTURE(lower_million, 1f1b_64x2600, "1f1b", 64, 2600)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(validate_million, 1f1b_64x2600, "1f1b", 64, 2600)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(validate_million, interleaved_64x1300, "interleaved", 64,
                  1300)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipewright

BENCHMARK_MAIN();
