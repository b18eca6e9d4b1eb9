#include "experiments/convergence/convergence_arm.h"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <thread>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/method_switch.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/pipemare/pipemare_cuts.h"
#include "pipewright/planners/pipemare/pipemare_segments.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/schedules/async_deep.h"
#include "pipewright/simulate/given_costs.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

// The model's layers over so many stages on so many workers.
Result<Plan> plan_of(const Task& task, const Arm& arm, int stages,
                     int workers) {
  PIPEWRIGHT_TRY(const Cluster cluster,
                 load_cluster(std::to_string(workers) + "xcpu"));
  const std::array sizes = {task.recipe.microbatch};
  PIPEWRIGHT_TRY(const Profile profile,
                 analytic_profile(task.model, cluster.kinds(), sizes));
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  PIPEWRIGHT_TRY(const DeepStages cut,
                 deep_stages(problem, task.recipe.microbatch, stages));
  Plan plan;
  plan.model = task.model.name();
  plan.method = arm.method;
  plan.minibatch = task.recipe.minibatch;
  plan.microbatch = task.recipe.microbatch;
  PIPEWRIGHT_TRY(const OptimizerMemory memory, memory_of(task.optimizer));
  plan.optimizer_words = memory.words;
  PIPEWRIGHT_TRY(plan.schedule,
                 async_deep_schedule(cut.stages_of, task.microbatches()));
  int layer = 0;
  std::size_t s = 0;
  for (std::size_t w = 0; w < cut.stages_of.size(); ++w) {
    plan.devices.push_back(DeviceId(w));
    for (int i = 0; i < cut.stages_of[w]; ++i, ++s) {
      Stage stage;
      for (; layer < cut.ends[s]; ++layer)
        stage.forward.push_back(LayerId(layer));
      stage.backward = stage.forward;
      stage.workers = {WorkerId(w)};
      plan.stages.push_back(std::move(stage));
    }
  }
  if (arm.recompute)
    return recomputing(plan, static_cast<int>(std::lround(std::sqrt(stages))));
  return is_asynchronous(arm.method) ? plan : drained(plan);
}

Profile sizes_of(const Task& task) {
  Profile sizes = profile_graph(task.model);
  sizes.sizes[task.recipe.microbatch] =
      model_sizes(task.model, task.recipe.microbatch);
  return sizes;
}

Result<Program> program_of(const Task& task, const Arm& arm, const Plan& plan) {
  PIPEWRIGHT_TRY(Program program, lower(plan, sizes_of(task)));
  if (arm.method == Method::PipeMare) set_corrected(program, arm.correction);
  return program;
}

// Up along a line, then down to nothing along a cosine, so that the end is no
// accident.
double scheduled(double rate, double ramp, double done) {
  if (done < ramp) return rate * done / ramp;
  return rate * (1 + std::cos(std::numbers::pi * (done - ramp) / (1 - ramp))) /
         2;
}

Result<TrainingSettings> settings_of(const Task& task, const Arm& arm,
                                     const Training& training) {
  const Recipe& recipe = task.recipe;
  TrainingSettings settings;
  settings.seed = training.seed;
  PIPEWRIGHT_TRY(settings.optimizer, make_optimizer(task.optimizer));
  settings.learning_rate = [training, ramp = recipe.ramp](std::int64_t step) {
    return scheduled(training.rate, ramp,
                     (static_cast<double>(step) + 0.5) / training.steps);
  };
  settings.rescheduling_start = std::llround(arm.warm_up * training.steps);
  const auto asynchronous =
      static_cast<double>(training.steps - settings.rescheduling_start);
  if (arm.rescheduling)
    settings.rescheduling_steps =
        std::llround(asynchronous * training.annealing);
  settings.correction_decay = recipe.decay;
  return settings;
}

// The day and the machine that trains.
std::string origin_here(const std::string& device) {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&now, &day);
  char date[16] = "";
  std::strftime(date, sizeof date, "%Y-%m-%d", &day);
  if (device != "cpu")
    if (const GpuReport report = gpu_report(); !report.gpus.empty())
      return std::string(date) + " on " + report.gpus.front().name;
  utsname system{};
  ::uname(&system);
  return std::string(date) + " on " + system.machine + " with " +
         std::to_string(std::thread::hardware_concurrency()) + " cores";
}

// To six digits, so that a file of a training is small.
double rounded(double loss) {
  char text[32] = "";
  std::snprintf(text, sizeof text, "%.6g", loss);
  return std::strtod(text, nullptr);
}

void append_steps(const std::vector<double>& microbatches, int per_step,
                  std::vector<double>& losses) {
  for (std::size_t i = 0;
       i + static_cast<std::size_t>(per_step) <= microbatches.size();
       i += static_cast<std::size_t>(per_step))
    losses.push_back(
        rounded(std::accumulate(
                    microbatches.begin() + std::ptrdiff_t(i),
                    microbatches.begin() + std::ptrdiff_t(i) + per_step, 0.0) /
                per_step));
}

// One worker on the training's device.
Result<std::unique_ptr<Executor>> executor_of(const Task& task,
                                              const Program& program,
                                              const TrainingSettings& settings,
                                              int place) {
  const bool is_cpu = task.recipe.device == "cpu";
  PIPEWRIGHT_TRY(Executor::Devices devices,
                 open_devices({task.recipe.device}, is_cpu ? 0 : place));
  return std::make_unique<Executor>(task.model, program, settings, nullptr,
                                    std::move(devices));
}

// Where the trained weights are tested.
at::Device test_place(const Task& task) {
  return task.recipe.device == "cpu" ? at::Device(at::kCPU)
                                     : at::Device(at::kCUDA, 0);
}

// Runs an executor for some of a training's steps; false: it diverged.
Result<bool> train_on(Executor& executor, const MicrobatchSource& source,
                      int steps, int microbatches, Outcome& outcome) {
  const auto start = std::chrono::steady_clock::now();
  const Result<Executed> done = executor.run(source, steps);
  outcome.seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  outcome.diverged = !done;
  if (done) append_steps(done->losses, microbatches, outcome.losses);
  if (!done && done.error().code != ErrorCode::LossNotFinite)
    return done.error();
  return done.ok();
}

}  // namespace

std::vector<Arm> arms(const Recipe& recipe) {
  const std::string both = "pipemare T1+T2";
  const auto pipemare = Method::PipeMare;
  const std::vector<Arm> all = {
      {"sync", Method::Sync},
      {"naive", Method::Naive},
      {"stash", Method::Stash},
      {"2bw", Method::TwoBw},
      {"pipemare T1", pipemare, true},
      {"pipemare T2", pipemare, false, true},
      {both, pipemare, true, true},
      {both + "+T3", pipemare, true, true, recipe.warm_up},
      {both + "+recompute", pipemare, true, true, 0, true, both}};
  std::vector<Arm> wanted;
  for (const Arm& arm : all)
    if (std::find(recipe.arms.begin(), recipe.arms.end(), arm.name) !=
        recipe.arms.end())
      wanted.push_back(arm);
  return wanted;
}

double Outcome::final_loss() const {
  if (diverged || losses.empty())
    return std::numeric_limits<double>::infinity();
  const std::size_t tail = std::max<std::size_t>(losses.size() / 10, 1);
  return std::accumulate(losses.end() - std::ptrdiff_t(tail), losses.end(),
                         0.0) /
         static_cast<double>(tail);
}

Result<Outcome> outcome_of(const Task& task, const Arm& arm,
                           const Training& training) {
  PIPEWRIGHT_TRY(const Plan plan, plan_of(task, arm, training.stages, 1));
  PIPEWRIGHT_TRY(const Program program, program_of(task, arm, plan));
  PIPEWRIGHT_TRY(const TrainingSettings settings,
                 settings_of(task, arm, training));
  const MicrobatchSource source =
      microbatches_of(task.train, {training.seed, task.recipe.microbatch});
  const int warm_up = static_cast<int>(settings.rescheduling_start);
  Outcome outcome;
  outcome.origin = origin_here(task.recipe.device);
  std::optional<TrainingState> warmed_up;
  if (warm_up > 0) {
    PIPEWRIGHT_TRY(const Program first,
                   warm_up_program(plan, sizes_of(task), program));
    PIPEWRIGHT_TRY(const auto synchronous,
                   executor_of(task, first, settings, training.place));
    PIPEWRIGHT_TRY(const bool goes_on, train_on(*synchronous, source, warm_up,
                                                task.microbatches(), outcome));
    if (!goes_on) return outcome;
    warmed_up = synchronous->state();
  }
  PIPEWRIGHT_TRY(const auto executor,
                 executor_of(task, program, settings, training.place));
  if (warmed_up) executor->resume(*warmed_up);
  PIPEWRIGHT_TRY(const bool has_ended,
                 train_on(*executor, source, training.steps - warm_up,
                          task.microbatches(), outcome));
  if (!has_ended) return outcome;
  const double result = tested(task, executor->trained(), test_place(task));
  outcome.diverged = !(outcome.final_loss() < 0.8 * outcome.losses.front() &&
                       std::isfinite(result));
  if (std::isfinite(result)) outcome.result = result;
  return outcome;
}

Result<ArmFacts> facts_of(const Task& task, const Arm& arm, int stages) {
  // Without the correction no velocity is kept.
  Arm kept = arm;
  if (arm.method == Method::PipeMare && !arm.correction)
    kept.method = Method::Naive;
  PIPEWRIGHT_TRY(const Plan plan, plan_of(task, kept, stages, stages));
  PIPEWRIGHT_TRY(const Program program, lower(plan, sizes_of(task)));
  PIPEWRIGHT_TRY(const ProgramFacts proof, validate(program));
  SimulateOptions options;
  options.keep_spans = false;
  // Equal stages, so that the numbers are the method's and not the model's.
  const Timeline timeline = simulate(program, equal_costs(program), options);
  ArmFacts facts;
  for (const StageDelay& stage : proof.staleness)
    facts.delay += stage.forward / static_cast<double>(proof.staleness.size());
  facts.step = timeline.step_seconds;
  facts.utilisation = 1 - timeline.bubble;
  if (arm.warm_up > 0) {
    PIPEWRIGHT_TRY(const ArmFacts first,
                   facts_of(task, {"", Method::Sync}, stages));
    facts.step = first.step * arm.warm_up + facts.step * (1 - arm.warm_up);
    facts.utilisation = 1 / (arm.warm_up / first.utilisation +
                             (1 - arm.warm_up) / facts.utilisation);
  }
  for (const WorkerSummary& worker : timeline.workers) {
    facts.weights +=
        worker.peak.weights + worker.peak.gradients + worker.peak.optimizer;
    facts.activations += worker.peak.activations;
  }
  return facts;
}

}  // namespace pipewright
