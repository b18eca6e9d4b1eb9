// How long the exact planner takes: published instances (where PIPEWRIGHT_DATA
// says they are) and models of the zoo on six devices.

#include <benchmark/benchmark.h>

#include <cstdlib>

#include "pipewright/base/files.h"
#include "pipewright/model/model.h"
#include "pipewright/planners/exact/exact_placement.h"
#include "pipewright/planners/exact/exact_profile.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

void report(benchmark::State& state, const Result<ChainSolution>& solution) {
  if (!solution) return state.SkipWithError("no solution");
  state.counters["load"] = solution->load;
  state.counters["proven"] = solution->proven;
  state.counters["downsets"] = static_cast<double>(solution->downsets);
}

void instance(benchmark::State& state, const char* file) {
  const char* data = std::getenv("PIPEWRIGHT_DATA");
  if (!data) return state.SkipWithError("PIPEWRIGHT_DATA is not set");
  const std::string path =
      std::string(data) + "/dnn-partitioning/throughput-inputs/" + file;
  const auto text = read_file(path);
  if (!text) return state.SkipWithError("the file is missing");
  const auto parsed = parse_placement(*text, path);
  if (!parsed) return state.SkipWithError("the file is malformed");
  Result<ChainSolution> solution = ChainSolution{};
  for (auto _ : state) solution = best_chain(grouped(*parsed).problem);
  report(state, solution);
}

void zoo(benchmark::State& state, const char* name, const char* devices) {
  const auto model = load_model(name);
  const auto cluster = load_cluster(devices);
  if (!model || !cluster) return state.SkipWithError("unknown name");
  const std::vector<int> microbatches{32};
  const auto profile = analytic_profile(*model, cluster->kinds(), microbatches);
  if (!profile) return state.SkipWithError("no profile");
  Problem problem;
  problem.profile = &*profile;
  problem.cluster = &*cluster;
  problem.minibatch = 512;
  problem.microbatches = microbatches;
  Result<ChainSolution> solution = ChainSolution{};
  for (auto _ : state)
    solution = best_chain(*chain_problem(problem, microbatches[0]));
  report(state, solution);
}

BENCHMARK_CAPTURE(instance, bert24_inference,
                  "LayerGraphs/bert24_inference.json");
BENCHMARK_CAPTURE(instance, bert24_training,
                  "LayerGraphs/bert24_training.json");
BENCHMARK_CAPTURE(instance, resnet50_inference,
                  "LayerGraphs/resnet50_inference.json");
BENCHMARK_CAPTURE(instance, resnet50_training,
                  "LayerGraphs/resnet50_training.json");
BENCHMARK_CAPTURE(instance, bert3_operators_inference,
                  "OperatorGraphs/bert_l-3_inference.json");
BENCHMARK_CAPTURE(instance, bert3_operators_training,
                  "OperatorGraphs/bert_l-3_training.json");
BENCHMARK_CAPTURE(zoo, gnmt16, "gnmt:layers=16", "6xV100")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(zoo, inception_v3, "inception_v3", "6xV100")
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pipewright

BENCHMARK_MAIN();
