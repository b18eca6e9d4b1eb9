// Seconds that SPP takes to plan: a chain of 50 layers on hosts of 8 devices,
// from the device order to the simulated plan. Goal on one core: 32 devices
// within 0.5 s, 64 within 5 s.

#include <benchmark/benchmark.h>

#include "pipewright/cluster/cluster_text.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/spp/spp_device_order.h"
#include "pipewright/planners/spp/spp_search.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Profile long_chain(int num_layers) {
  Profile profile;
  for (int l = 0; l < num_layers; ++l) {
    add_layer(profile, Bytes(1000000LL * (1 + l * 7 % 10)));
    profile.sizes[32].push_back(
        {Bytes(1000000LL * (1 + l * 3 % 7)), Bytes(0), Bytes(0)});
    const double scale = 1e-3 * (1 + l * 5 % 11);
    profile.times["V100"][32].push_back(
        {Seconds(scale), Seconds(scale), Seconds(scale), Seconds(1e-5)});
  }
  return profile;
}

std::string hosts(std::int64_t devices) {
  if (devices <= 8) return std::to_string(devices) + "xV100@nvlink";
  return std::to_string(devices / 8) + "x8xV100@nvlink/10GbE";
}

void plan(benchmark::State& state) {
  const Profile profile = long_chain(static_cast<int>(state.range(0)));
  const auto cluster = parse_cluster_text(hosts(state.range(1)));
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &*cluster;
  problem.minibatch = 1024;
  problem.microbatches = {32};
  problem.estimate = simulating_estimator(problem);
  const Planner& spp = **find_planner("spp");
  for (auto _ : state) {
    const auto planned = spp.plan(problem);
    if (!planned) return state.SkipWithError(planned.error().message.c_str());
    state.counters["stages"] = planned->plan.num_stages();
    state.counters["step_s"] = planned->estimate.step.value();
  }
}
BENCHMARK(plan)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"layers", "devices"})
    ->Args({50, 8})
    ->Args({50, 32})
    ->Args({50, 64})
    ->Args({500, 32})
    ->Args({50, 1024});

void device_order(benchmark::State& state) {
  const auto cluster = parse_cluster_text(hosts(state.range(0)));
  for (auto _ : state)
    benchmark::DoNotOptimize(recursive_device_order(*cluster));
}
BENCHMARK(device_order)
    ->Unit(benchmark::kMillisecond)
    ->Arg(32)
    ->Arg(64)
    ->Arg(1024);

void partition(benchmark::State& state) {
  const Profile profile = long_chain(static_cast<int>(state.range(0)));
  const auto cluster = parse_cluster_text(hosts(state.range(1)));
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &*cluster;
  problem.minibatch = 1024;
  const auto order = recursive_device_order(*cluster);
  for (auto _ : state) {
    const auto costs = SppCosts::create(problem, order, 32);
    benchmark::DoNotOptimize(Partition(costs->partition()));
  }
}
BENCHMARK(partition)
    ->Unit(benchmark::kMillisecond)
    ->ArgNames({"layers", "devices"})
    ->Args({50, 32})
    ->Args({50, 64})
    ->Args({500, 64});

}  // namespace
}  // namespace pipewright

BENCHMARK_MAIN();
