// Speed of the simulator in actions per second (sends and receives count, one
// each), on one core: 1F1B over a chain with finite links.

#include <benchmark/benchmark.h>

#include "pipewright/base/heap.h"
#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"
#include "pipewright/simulate/history/memory_history.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/steady_state.h"
#include "tests/plan/set_effect.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

struct Case {
  Program program;
  Costs costs;
};

Case one_f_one_b(int stages, int microbatches) {
  test::Chain chain = test::one_f_one_b(stages, microbatches);
  chain.bytes = Bytes(1000);
  Case made{test::chain_program(chain), {}};
  made.costs = test::even_costs(made.program, 1, 2, 0.01);
  for (auto& cost : made.costs.transfers) cost.bandwidth = BytesPerSecond(5000);
  for (auto& operation : made.program.operations) {
    set_effect(made.program, operation.stage, ActionKind::Forward,
               {Bytes(100), Bytes(0)});
    set_effect(made.program, operation.stage, ActionKind::Backward,
               {Bytes(0), Bytes(100)});
  }
  return made;
}

// Both directions of a pair on one half-duplex link, which must choose.
Case half_duplex(int stages, int microbatches) {
  Case made = one_f_one_b(stages, microbatches);
  for (std::size_t t = 0; t < made.costs.transfers.size(); ++t)
    made.costs.transfers[t].half_duplex_link =
        static_cast<int>(t) % (stages - 1);
  return made;
}

// All transfers over one network card, so that they share it.
Case shared_card(int stages, int microbatches) {
  Case made = one_f_one_b(stages, microbatches);
  made.costs.resources = {{"card", BytesPerSecond(20000), Duplex::Full}};
  for (std::size_t t = 0; t < made.costs.transfers.size(); ++t)
    made.costs.transfers[t].uses = {{0, t % 2 == 0}};
  return made;
}

void count(benchmark::State& state, std::int64_t actions) {
  state.counters["actions/s"] = benchmark::Counter(
      static_cast<double>(actions) * static_cast<double>(state.iterations()),
      benchmark::Counter::kIsRate);
  state.counters["actions"] = static_cast<double>(actions);
}

void run_body(benchmark::State& state, const Case& what, int repetitions,
              bool track_memory = false) {
  const TimedCode code = compile(what.program, what.costs);
  EngineOptions options;
  options.repetitions = repetitions;
  options.keep_journal = track_memory;
  std::int64_t actions = 0;
  for (auto _ : state) {
    Execution execution = execute(code, options);
    if (track_memory) {
      MemoryHistories histories(code, execution.journal);
      for (std::size_t w = 0; w < execution.workers.size(); ++w)
        benchmark::DoNotOptimize(
            histories.of_worker(WorkerId(w), Bytes(0), false));
    }
    actions = execution.num_actions;
    benchmark::DoNotOptimize(execution.duration);
  }
  count(state, actions);
}

void long_run(benchmark::State& state) {
  run_body(state, one_f_one_b(static_cast<int>(state.range(0)), 64), 100);
}
BENCHMARK(long_run)->Arg(2)->Arg(8)->Arg(64);

void long_run_with_memory(benchmark::State& state) {
  run_body(state, one_f_one_b(static_cast<int>(state.range(0)), 64), 100, true);
}
BENCHMARK(long_run_with_memory)->Arg(2)->Arg(8)->Arg(64);

void contended_links(benchmark::State& state) {
  run_body(state, half_duplex(static_cast<int>(state.range(0)), 64), 100);
}
BENCHMARK(contended_links)->Arg(8)->Arg(64);

void shared_links(benchmark::State& state) {
  run_body(state, shared_card(static_cast<int>(state.range(0)), 64), 20);
}
BENCHMARK(shared_links)->Arg(8);

// What a planner pays: from Program to summary, once.
void whole_simulation(benchmark::State& state) {
  const Case what = one_f_one_b(8, 512);
  SimulateOptions options;
  options.keep_spans = state.range(0) == 2;
  options.track_memory = state.range(0) >= 1;
  for (auto _ : state)
    benchmark::DoNotOptimize(
        simulate(what.program, what.costs, options).duration);
  std::int64_t actions = 0;
  for (const WorkerProgram& worker : what.program.workers)
    actions += static_cast<std::int64_t>(worker.body.size());
  count(state, actions);
  state.SetLabel(state.range(0) == 0   ? "times"
                 : state.range(0) == 1 ? "times, memory"
                                       : "times, memory, spans");
}
BENCHMARK(whole_simulation)->Arg(0)->Arg(1)->Arg(2);

void period(benchmark::State& state) {
  const Case what = one_f_one_b(8, 64);
  for (auto _ : state)
    benchmark::DoNotOptimize(steady_state_period(what.program, what.costs));
}
BENCHMARK(period);

void period_of_contended_links(benchmark::State& state) {
  const Case what = half_duplex(8, 64);
  for (auto _ : state)
    benchmark::DoNotOptimize(steady_state_period(what.program, what.costs));
}
BENCHMARK(period_of_contended_links);

}  // namespace
}  // namespace pipewright

// As `pipewright plan` does.
int main(int argc, char** argv) {
  pipewright::keep_freed_memory();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 64;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
