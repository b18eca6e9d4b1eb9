// What the executor itself costs: programs of many actions whose kernels take
// about a microsecond, on 1, 2 and 4 workers.
//
//   on one worker   (wall clock - the kernels' own time) / compute actions
//   on several      (wall clock - what the simulator predicts from the kernels'
//                   own time, with nothing else) / compute actions on the way
//                   through the pipeline
//
// The kernels' own time is that of calling each layer's functions again and
// again, with nothing around. Goal: at most 10 us an action. Sends and receives
// count with the actions they belong to.
//
// Then the same with stages that take 0.2 ms forward: the share of the wall
// clock that the simulator needs. Goal: at least 95 % on 2 workers.

#include <c10/core/InferenceMode.h>

#include <functional>
#include <iostream>

#include "benchmarks/runtime/pipelines.h"
#include "cli/program_arguments.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/builder.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/execution/cores.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/profiling/profiler.h"
#include "pipewright/runtime/training/initial_parameters.h"
#include "pipewright/simulate/in_process_costs.h"
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

// Layers that take a while over few numbers: their time does not depend on
// which cache those are in.
Model long_stages(int layers) {
  ModelBuilder builder("long-stages");
  Source x = *builder.add_input({"input", {12, 8}});
  const Source target = *builder.add_input({"target", {12, 8}});
  for (int i = 0; i < layers; ++i)
    x = *builder.add_layer({.name = "lstm" + std::to_string(i),
                            .kind = LayerKind::Lstm,
                            .inputs = {x},
                            .attributes = {{"hidden", std::int64_t{8}}}});
  static_cast<void>(builder.add_layer(
      {.name = "loss", .kind = LayerKind::Mse, .inputs = {x, target}}));
  return *std::move(builder).build();
}

Seconds each(const std::function<void()>& work) {
  constexpr int kTimes = 200;
  return measured(
             [&] {
               for (int i = 0; i < kTimes; ++i) work();
             },
             Seconds(0.01))
             .median /
         kTimes;
}

// Calls of the layer's functions alone.
LayerTimes kernel_times(const Network& network, LayerId id, int samples) {
  const Layer& layer = network.model.layer(id);
  const LayerFunction& function = *network.functions[id.index()];
  const RandomStream stream(1, layer.name);
  Tensors inputs, weights, carried;
  for (const Source& source : layer.inputs)
    inputs.push_back(random_samples(network.model, source, samples, stream));
  for (const ParameterId parameter : layer.parameters)
    weights.push_back(initial_parameter(network.model, parameter, 1));
  const ForwardContext context{1, 0, 0, true, nullptr};
  LayerTimes times;
  Forwarded done;
  times.forward =
      each([&] { done = function.forward(inputs, weights, context); });
  const KeptTensors kept{inputs, done.output, done.kept_private};
  const at::Tensor gradient = at::ones_like(done.output);
  times.backward_input = each([&] {
    carried.clear();
    function.backward_input(kept, weights, gradient, &carried);
  });
  if (layer.parameters.empty()) return times;
  Tensors sums = function.backward_weight(kept, gradient, carried);
  times.backward_weight = each(
      [&] { function.add_backward_weight(kept, gradient, carried, sums); });
  return times;
}

Profile kernel_profile(const Model& model, int samples) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  const Network network(model);
  Profile profile = profile_graph(model);
  profile.sizes[samples] = model_sizes(model, samples);
  for (int l = 0; l < model.num_layers(); ++l)
    profile.times["cpu"][samples].push_back(
        kernel_times(network, LayerId(l), samples));
  return profile;
}

struct Measured {
  Seconds step, kernels;
  int actions = 0;  // computing, of the worker with the most
};

Measured measured_case(const std::string& name, int workers, const Model& model,
                       int samples) {
  const Profile profile = kernel_profile(model, samples);
  const Schedule schedule =
      schedule_for(name, profile, workers, kMicrobatches, samples);
  const Program program =
      *lower(balanced_plan(model, profile, schedule, samples), profile);
  Executor executor(model, program, plain_sgd());
  Measured result;
  result.step = step_time(executor, steady_source(model, samples), 50, 5);
  result.kernels =
      simulate(program, *in_process_costs(program, profile, {Seconds(0), 0}))
          .step_seconds;
  for (const WorkerProgram& worker : program.workers) {
    int count = 0;
    for (const Action& action : worker.body) count += is_compute(action.kind);
    result.actions = std::max(result.actions, count);
  }
  return result;
}

void print_table(bool is_empty) {
  using Align = TextTable::Align;
  TextTable table(
      {{"schedule", Align::Left},
       {"workers", Align::Right},
       {"actions a step", Align::Right},
       {"step", Align::Right},
       {"kernels alone", Align::Right},
       {is_empty ? "overhead an action" : "of the ideal", Align::Right}});
  for (const std::string name : {"gpipe", "1f1b", "zb-h1"})
    for (const int workers : {1, 2, 4}) {
      if (workers > num_usable_cores()) continue;
      const Measured result =
          is_empty
              ? measured_case(name, workers, nearly_empty(2 * workers + 2), 1)
              : measured_case(name, workers, long_stages(workers), 1);
      table.add_row(
          {name, std::to_string(workers), std::to_string(result.actions),
           to_text(result.step), to_text(result.kernels),
           is_empty ? to_text((result.step - result.kernels) / result.actions)
                    : to_text(result.kernels / result.step * 100) + " %"});
    }
  std::cout << table.to_text(100);
}

}  // namespace
}  // namespace pipewright::bench

int main(int argc, char** argv) {
  CLI::App app{"Times what the executor itself costs per action"};
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  pipewright::bench::print_table(true);
  std::cout << "\nstages of about 0.2 ms:\n";
  pipewright::bench::print_table(false);
}
