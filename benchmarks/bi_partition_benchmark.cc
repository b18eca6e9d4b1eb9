// Bi-Partition's exact search. Goal: 200 layers, 16 workers and a band of 6 in
// at most a second, seeds and bounds included.

#include <benchmark/benchmark.h>

#include <limits>

#include "pipewright/planners/bi_partition/bi_partition_search.h"
#include "tests/planners/bi_partition/bi_partition_chain.h"

namespace pipewright {
namespace {

void bi_partition_search(benchmark::State& state) {
  const int layers = static_cast<int>(state.range(0));
  const int workers = static_cast<int>(state.range(1));
  std::mt19937 random(1);
  const Profile profile = random_chain(layers, random, 2'000'000);
  const Cluster cluster =
      *load_cluster(std::to_string(workers) + "xV100@1GB/s");
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = 32;
  problem.method = Method::Stash;
  double ratio = 0;
  for (auto _ : state) {
    BiPartitionOptions equal, split;
    equal.band = 0;
    split.band = static_cast<int>(state.range(2));
    const auto narrow = *BiPartitionCosts::create(problem, 1, equal);
    const auto wide = *BiPartitionCosts::create(problem, 1, split);
    const double bound = communication_free_bound(wide);
    const double layer_wise =
        *BiPartitionSearch(narrow, std::numeric_limits<double>::infinity(),
                           bound)
             .bottleneck(workers, workers);
    const BiPartitionSearch search(wide, layer_wise, bound);
    const auto best = search.best(workers, workers);
    benchmark::DoNotOptimize(best);
    ratio = best ? layer_wise / best->bottleneck : 1;
  }
  state.counters["layer-wise/split"] = ratio;
}

BENCHMARK(bi_partition_search)
    ->Args({200, 16, 6})
    ->Args({200, 4, 6})
    ->Args({600, 64, 6})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipewright

BENCHMARK_MAIN();
