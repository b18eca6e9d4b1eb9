// What the executor itself costs: programs of many actions whose kernels take
// about a microsecond, on 1, 2 and 4 workers.
//
//   on one worker   (wall clock - the kernels' own time) / compute actions
//   on several      (wall clock - what the simulator predicts from the kernels'
//                   own time, with nothing else) / compute actions on the way
//                   through the pipeline
//
// The kernels' own time is measured layer by layer, as the profiler does. Goal:
// at most 10 us an action. Sends and receives count with the actions they
// belong to.

#include <iostream>

#include "benchmarks/runtime/pipelines.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/model/builder.h"
#include "pipewright/runtime/profiler.h"
#include "pipewright/runtime/worker_threads.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::bench {
namespace {

constexpr int kMicrobatches = 32;

// One parameter that is trained, and activations on a handful of numbers.
Model nearly_empty(int layers) {
  ModelBuilder builder("nearly-empty");
  Source x = *builder.add_input({"input", {4}});
  const Source target = *builder.add_input({"target", {4}});
  x = *builder.add_layer({.name = "first",
                          .kind = LayerKind::Linear,
                          .inputs = {x},
                          .attributes = {{"out_features", std::int64_t{4}}}});
  for (int i = 0; i + 2 < layers; ++i)
    x = *builder.add_layer({.name = "relu" + std::to_string(i),
                            .kind = LayerKind::Relu,
                            .inputs = {x}});
  static_cast<void>(builder.add_layer(
      {.name = "loss", .kind = LayerKind::Mse, .inputs = {x, target}}));
  return *std::move(builder).build();
}

struct Measured {
  Seconds step, kernels;
  int actions = 0;  // computing, of the worker with the most
};

Measured measured_case(const std::string& name, int workers) {
  const Model model = nearly_empty(2 * workers + 2);
  const int sizes[] = {1};
  ProfilerOptions options;
  options.budget = Seconds(0.5);
  const Profile profile = *measured_profile(model, sizes, options);
  const Schedule schedule =
      schedule_for(name, profile, workers, kMicrobatches, 1);
  const Program program =
      *lower(balanced_plan(model, profile, schedule, 1), profile);
  Executor executor(model, program, plain_sgd());
  Measured result;
  result.step = step_time(executor, steady_source(model, 1), 50, 5);
  Costs costs = *costs_of(program, profile,
                          *load_cluster(std::to_string(workers) + "xcpu"));
  for (auto& transfer : costs.transfers) {
    transfer = {};
    transfer.bandwidth = BytesPerSecond(1e30);
  }
  result.kernels = simulate(program, costs).step_seconds;
  for (const WorkerProgram& worker : program.workers) {
    int count = 0;
    for (const Action& action : worker.body) count += is_compute(action.kind);
    result.actions = std::max(result.actions, count);
  }
  return result;
}

void print_table() {
  using Align = TextTable::Align;
  TextTable table({{"schedule", Align::Left},
                   {"workers", Align::Right},
                   {"actions a step", Align::Right},
                   {"step", Align::Right},
                   {"kernels alone", Align::Right},
                   {"overhead an action", Align::Right}});
  for (const std::string name : {"gpipe", "1f1b", "zb-h1"})
    for (const int workers : {1, 2, 4}) {
      if (workers > num_usable_cores()) continue;
      const Measured result = measured_case(name, workers);
      table.add_row({name, std::to_string(workers),
                     std::to_string(result.actions), to_text(result.step),
                     to_text(result.kernels),
                     to_text((result.step - result.kernels) / result.actions)});
    }
  std::cout << table.to_text(100);
}

}  // namespace
}  // namespace pipewright::bench

int main() { pipewright::bench::print_table(); }
