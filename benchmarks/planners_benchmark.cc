// Seconds that each planner takes over the nets and numbers of devices (hosts
// of 8), from the problem to the simulated plan, with three seconds to search.
// A planner that has nothing for so many devices says why in its place. Then
// PipeDream's own table alone, which its authors' optimizer fills in 150 ms
// (vgg16) and 560 ms (resnet50); goal: 5 ms each.

#include <benchmark/benchmark.h>

#include <chrono>

#include "pipewright/base/files.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/pipedream/pipedream.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

constexpr double kBudget = 3;

struct Inputs {
  Result<Cluster> cluster;
  Result<Profile> profile;
  std::vector<int> microbatches;
};

std::string cluster_text(int devices) {
  if (devices <= 8) return std::to_string(devices) + "xV100@nvlink";
  return std::to_string(devices / 8) + "x8xV100@nvlink/100GbE";
}

Inputs inputs_of(const std::string& net, int devices) {
  Result<Cluster> cluster = load_cluster(cluster_text(devices));
  const int hosts = std::max(1, devices / 8);
  std::vector<int> microbatches;
  for (int size : {8, 16, 64}) microbatches.push_back(size * hosts);
  std::vector<int> profiled = microbatches;
  for (int size : {1, 2, 4, 8, 16, 32, 64}) profiled.push_back(size);
  const auto model = load_model(net);
  Result<Profile> profile =
      model ? analytic_profile(*model, cluster->kinds(), profiled)
            : Result<Profile>(model.error());
  return {std::move(cluster), std::move(profile), microbatches};
}

void plan(benchmark::State& state, const Planner* planner,
          const std::string& net, int devices) {
  const Inputs inputs = inputs_of(net, devices);
  if (!inputs.cluster || !inputs.profile)
    return state.SkipWithError("no inputs");
  Problem problem;
  problem.profile = &*inputs.profile;
  problem.cluster = &*inputs.cluster;
  problem.minibatch = 512 * std::max(1, devices / 8);
  problem.microbatches = inputs.microbatches;
  problem.method =
      planner->name() == "pipemare" ? Method::PipeMare : Method::Sync;
  set_estimators(problem);
  problem.budget = Seconds(kBudget);
  problem.threads = 1;
  for (auto _ : state) {
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(kBudget);
    problem.is_over_ = [end] { return std::chrono::steady_clock::now() > end; };
    const auto planned = planner->plan(problem);
    if (!planned) return state.SkipWithError(planned.error().message.c_str());
    state.counters["step_ms"] = planned->estimate.step.value() * 1e3;
  }
}

void pipedream(benchmark::State& state, const char* net, double bandwidth) {
  const std::string file =
      std::string("examples/profiles/") + net + "-v100.json";
  const auto text = read_file(file);
  if (!text) return state.SkipWithError("run it in the repository");
  const Profile profile = parse_profile(*text, file).value();
  const Cluster cluster = load_cluster("16xV100").value();
  const CostTable costs =
      CostTable::create(profile, cluster, profile.sizes.begin()->first).value();
  Levels flat;
  flat.inner = 16;
  flat.inner_bandwidth = flat.outer_bandwidth = BytesPerSecond(bandwidth);
  for (auto _ : state)
    benchmark::DoNotOptimize(pipedream_partition(costs, 0, flat));
}

void register_all() {
  for (const char* net : {"vgg16", "resnet50", "gnmt", "bert", "gpt2-xl"})
    for (int devices : {4, 16, 64, 256, 1024})
      for (const auto& planner : planners())
        benchmark::RegisterBenchmark(
            (planner->name() + "/" + net + "/" + std::to_string(devices))
                .c_str(),
            [each = planner.get(), net, devices](benchmark::State& state) {
              plan(state, each, net, devices);
            })
            ->Unit(benchmark::kMillisecond)
            ->Iterations(1);
  for (const char* net : {"vgg16", "resnet50"})
    benchmark::RegisterBenchmark(
        (std::string("pipedream_table/") + net + "/16").c_str(),
        [net](benchmark::State& state) { pipedream(state, net, 1.25e9); })
        ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace pipewright

int main(int argc, char** argv) {
  pipewright::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 64;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
