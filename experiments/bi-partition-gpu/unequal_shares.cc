// Trains a plan whose workers have unequal shares of one GPU, which `train`
// refuses: a plan for it has one kind of GPU.
//
//   unequal_shares PLAN [--steps N] [--runs N]
//
// The plan names the kinds, as cuda/2 and cuda/4; shares do not overlap, in the
// order of the workers. On random data; prints one JSON object: the step of
// each run in seconds, how long each worker computes in a step, and why actions
// are given kernel by kernel, where they are. Predicts nothing.

#include <iostream>

#include "cli/program_arguments.h"
#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/cluster/this_machine_gpu.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {
namespace {

struct Options {
  std::string plan;
  int steps = 20;
  int runs = 5;
};

void add_options(CLI::App& app, Options& options) {
  app.add_option("PLAN", options.plan, "The plan's file")->required();
  app.add_option("--steps", options.steps, "Steps of a run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--runs", options.runs, "Runs, after a warm-up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

// Each worker's share begins where the one before it ends, or later where it
// could not end with a multiple of its size: after a half the third quarter.
Result<Executor::Devices> open_shares(const std::vector<std::string>& kinds) {
  Executor::Devices devices;
  int taken = 0, parts = 1;  // taken / parts of the GPU
  for (const std::string& kind : kinds) {
    const int share = gpu_share(kind);
    const bool is_share = share > 0 && kind != "cuda-stream";
    const int number = is_share ? (taken * share + parts - 1) / parts : 0;
    if (is_share && number >= share)
      return bad_configuration("the shares are more than one GPU");
    PIPEWRIGHT_TRY(Executor::Devices opened, open_devices({kind}, number));
    devices.push_back(std::move(opened.front()));
    if (is_share) taken = number + 1, parts = share;
  }
  return devices;
}

Result<Program> program_of(const Plan& plan, const Model& model) {
  Profile sizes = profile_graph(model);
  sizes.sizes[plan.microbatch] = model_sizes(model, plan.microbatch);
  PIPEWRIGHT_TRY(Program program, lower(plan, sizes));
  if (auto valid = validate(program); !valid) return valid.error();
  return program;
}

TrainingSettings settings() {
  TrainingSettings settings;
  settings.optimizer = sgd({0.9, 0, false});
  settings.learning_rate = [](std::int64_t) { return 1e-4; };
  return settings;
}

Json numbers(const std::vector<double>& values) {
  Json array = Json::array();
  for (const double value : values) array.push(value);
  return array;
}

Result<Json> trained(const Options& options) {
  PIPEWRIGHT_TRY(const std::string text, read_file(options.plan));
  PIPEWRIGHT_TRY(const Plan plan, parse_plan(text, options.plan));
  PIPEWRIGHT_TRY(const Model model, load_model(plan.model));
  PIPEWRIGHT_TRY(const Program program, program_of(plan, model));
  PIPEWRIGHT_TRY(Executor::Devices devices, open_shares(plan.device_kinds));
  PIPEWRIGHT_TRY(
      const Dataset data,
      open_dataset("synthetic:" + std::to_string(plan.minibatch), model));
  const MicrobatchSource source = microbatches_of(data, {1, plan.microbatch});
  Executor executor(model, program, settings(), nullptr, std::move(devices));
  do {
    if (auto warmed = executor.run(source, 2); !warmed) return warmed.error();
  } while (!executor.is_settled());
  std::vector<double> steps;
  std::vector<double> busy(program.workers.size());
  for (int run = 0; run < options.runs; ++run) {
    PIPEWRIGHT_TRY(const Executed done, executor.run(source, options.steps));
    steps.push_back(step_period(done.timeline).value());
    for (std::size_t w = 0; w < busy.size(); ++w)
      busy[w] += done.timeline.workers[w].busy.value() /
                 (options.steps * options.runs);
  }
  Json json = Json::object();
  json.set("step_seconds", numbers(steps))
      .set("busy_seconds", numbers(busy))
      .set("no_graphs", executor.why_not_recorded());
  return json;
}

}  // namespace
}  // namespace pipewright

int main(int argc, char** argv) {
  pipewright::Options options;
  CLI::App app{"Trains a plan whose workers have unequal shares of one GPU"};
  pipewright::add_options(app, options);
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  const auto done = pipewright::trained(options);
  if (!done) {
    std::cerr << done.error().to_text() << "\n";
    return static_cast<int>(done.error().code);
  }
  std::cout << done->to_text();
  return 0;
}
