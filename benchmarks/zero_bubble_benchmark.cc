// How long the `zero-bubble` search takes and what it finds, beside 1f1b, zb-h1
// and a lower bound. Limits to keep, on one core: 0.1 s for 16 workers and 48
// microbatches, 2 s for 64 and 512.

#include <benchmark/benchmark.h>

#include "pipewright/schedules/makespan.h"
#include "pipewright/schedules/zero_bubble_problem.h"

namespace pipewright {
namespace {

// Stages that differ by up to half, transfers of a tenth.
ScheduleRequest unequal_request(int workers, int microbatches,
                                int stages_per_worker, double memory) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  request.stages_per_worker = stages_per_worker;
  request.transfer = Seconds(0.1);
  for (int s = 0; s < workers * stages_per_worker; ++s)
    request.times.push_back({Seconds(1.0 + 0.5 * (s * 7 % 11) / 10),
                             Seconds(1.0 + 0.5 * (s * 5 % 13) / 12),
                             Seconds(0.8 + 0.4 * (s * 3 % 7) / 6)});
  if (memory > 0)
    request.memory_limit.assign(static_cast<std::size_t>(workers),
                                memory * workers * stages_per_worker);
  return request;
}

void search(benchmark::State& state) {
  const int stages_per_worker = static_cast<int>(state.range(2));
  const ScheduleRequest request = unequal_request(
      static_cast<int>(state.range(0)), static_cast<int>(state.range(1)),
      stages_per_worker, static_cast<double>(state.range(3)) / 2);
  Result<Schedule> found = bad_configuration("not yet");
  for (auto _ : state) found = generate_schedule("zero-bubble", request);
  state.counters["step"] = schedule_makespan(*found, request).value();
  state.counters["bound"] = zb::lower_bound(*zb::problem_of(request)).makespan;
  for (const char* other : {"1f1b", "zb-h1", "zb-v"}) {
    const auto schedule = generate_schedule(other, request);
    if (schedule && schedule->num_stages() == found->num_stages())
      state.counters[other] = schedule_makespan(*schedule, request).value();
  }
}

BENCHMARK(search)
    ->ArgNames({"workers", "microbatches", "stages/worker", "memory/(p/2)"})
    ->Args({4, 8, 1, 0})
    ->Args({16, 48, 1, 0})
    ->Args({16, 48, 1, 2})
    ->Args({16, 48, 1, 1})
    ->Args({16, 48, 2, 0})
    ->Args({16, 48, 2, 2})
    ->Args({64, 512, 1, 0})
    ->Args({64, 512, 1, 2})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipewright

BENCHMARK_MAIN();
