#include "pipewright/runtime/profiling/profiling_pipeline.h"

#include <algorithm>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/data/sources.h"
#include "pipewright/runtime/data/training_samples.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/ranks/commands.h"

namespace pipewright {
namespace {

// Microbatches of a step: enough that the workers mostly compute at once.
constexpr int kRounds = 3;

// About what a layer takes: its arithmetic, and its bytes at ten operations of
// a core per byte.
double work_of(const Model& model, LayerId layer, int samples) {
  const LayerCost cost = layer_cost(model, layer);
  return (cost.forward + cost.backward_input + cost.backward_weight).value() *
             samples +
         30 * static_cast<double>(cost.memory_traffic.at(samples).value());
}

// The number of layers before each cut: a stage ends where it has its share of
// the work, and no stage is empty.
std::vector<int> cuts_of(const Model& model, int microbatch, int stages) {
  const int layers = model.num_layers();
  double all = 0;
  for (int l = 0; l < layers; ++l)
    all += work_of(model, LayerId(l), microbatch);
  std::vector<int> cuts;
  double done = 0;
  for (int l = 0; l < layers; ++l) {
    const int next = static_cast<int>(cuts.size()) + 1;
    if (next >= stages) break;
    done += work_of(model, LayerId(l), microbatch);
    const bool reached = done >= all * next / stages;
    const bool must = layers - (l + 1) == stages - next;
    if (reached || must) cuts.push_back(l + 1);
  }
  return cuts;
}

Orders one_f_one_b_orders(int stages, int microbatches) {
  Orders orders(stages);
  for (int s = 0; s < stages; ++s) {
    auto& order = orders[s];
    const int ahead = std::min(stages - s, microbatches);
    for (MicrobatchId m(0); m.value < microbatches + ahead; ++m) {
      if (m.value < microbatches)
        order.push_back({StageId(s), m, ComputeKind::Forward});
      const MicrobatchId back = m - (ahead - 1);
      if (back.value >= 0 && back.value < microbatches)
        order.push_back({StageId(s), back, ComputeKind::Backward});
    }
  }
  return orders;
}

Result<Plan> profiling_plan(const Model& model, int microbatch, int workers,
                            std::vector<Stage> given) {
  const int stages = std::min(workers, model.num_layers());
  Plan plan;
  plan.model = model.name();
  plan.microbatch = microbatch;
  plan.minibatch = microbatch * kRounds * stages;
  plan.stages = std::move(given);
  if (plan.stages.empty())
    plan.stages =
        stages_of_cuts(cuts_of(model, microbatch, stages), model.num_layers());
  for (int w = 0; w < stages; ++w) plan.devices.push_back(DeviceId(w));
  PIPEWRIGHT_TRY(
      plan.schedule,
      Schedule::create(stages, kRounds * stages,
                       one_f_one_b_orders(stages, kRounds * stages)));
  return plan;
}

Result<Program> program_of(const Plan& plan, const Model& model) {
  Profile sizes = profile_graph(model);
  sizes.sizes[plan.microbatch] = model_sizes(model, plan.microbatch);
  return lower(plan, sizes);
}

// As a training has its samples: small ones are gathered by the worker that
// asks for them, others are ready (TrainingSamples::wants_loader).
Result<MicrobatchSource> random_source(const Model& model, int microbatch) {
  constexpr std::int64_t kMicrobatches = 64;
  PIPEWRIGHT_TRY(Dataset one, synthetic(microbatch, model));
  if (!stored_samples(one)->wants_loader(microbatch)) {
    PIPEWRIGHT_TRY(Dataset all, synthetic(kMicrobatches * microbatch, model));
    const std::shared_ptr<TrainingSamples> samples =
        stored_samples(std::move(all));
    SampleRequest request;
    request.microbatch = microbatch;
    return MicrobatchSource(
        [samples, source = samples->microbatches(request)](
            int input, std::int64_t number) { return source(input, number); });
  }
  return MicrobatchSource(
      [inputs = std::move(one.inputs)](int input, std::int64_t) {
        return inputs[input].values;
      });
}

Result<TrainingSettings> training_settings(const ProfilingSettings& settings) {
  TrainingSettings result;
  result.may_record = settings.may_record;
  PIPEWRIGHT_TRY(result.optimizer, make_optimizer(settings.optimizer));
  result.learning_rate = [](std::int64_t) { return 1e-6; };
  return result;
}

std::size_t num_here(const Program& program, const Transport* transport) {
  if (!transport) return program.workers.size();
  std::size_t count = 0;
  for (int w = 0; w < program.num_workers(); ++w)
    count += transport->is_here(WorkerId(w));
  return count;
}

}  // namespace

Result<ProfilingPipeline> ProfilingPipeline::create(
    const Model& model, int microbatch, int workers,
    ProfilingSettings settings) {
  PIPEWRIGHT_TRY(Plan plan,
                 profiling_plan(model, microbatch, workers, settings.stages));
  PIPEWRIGHT_TRY(TrainingSettings training, training_settings(settings));
  PIPEWRIGHT_TRY(const Program program, program_of(plan, model));
  PIPEWRIGHT_TRY(MicrobatchSource source, random_source(model, microbatch));
  PIPEWRIGHT_TRY(
      Executor::Devices devices,
      open_devices(std::vector<std::string>(
                       num_here(program, settings.transport), settings.device),
                   settings.first_gpu));
  return ProfilingPipeline(model, std::move(plan), program, std::move(source),
                           std::move(devices), std::move(training),
                           std::move(settings));
}

ProfilingPipeline::ProfilingPipeline(const Model& model, Plan plan,
                                     const Program& program,
                                     MicrobatchSource source,
                                     Executor::Devices devices,
                                     TrainingSettings training,
                                     ProfilingSettings settings)
    : plan_(std::move(plan)),
      settings_(std::move(settings)),
      stage_of_layer_(model.num_layers()),
      updated_(model.num_layers()),
      updated_by_stage_(program.num_stages),
      layers_(std::make_unique<LayerStopwatch>(model.num_layers())),
      steps_(program.num_stages),
      executor_(std::make_unique<Executor>(model, program, std::move(training),
                                           settings_.transport,
                                           std::move(devices))),
      source_(std::move(source)) {
  executor_->time_layers(layers_.get());
  std::vector<bool> is_known(model.parameters().size(), false);
  for (const Operation& operation : program.operations)
    for (const LayerId layer : operation.backward)
      stage_of_layer_[layer.index()] = operation.stage;
  for (int l = 0; l < model.num_layers(); ++l) {
    const LayerId layer(l);
    for (const ParameterId id : model.layer(layer).parameters) {
      if (is_known[id.index()]) continue;
      is_known[id.index()] = true;
      const Parameter& parameter = model.parameter(id);
      updated_[layer.index()] +=
          size_of(parameter.type) * num_elements(parameter.shape);
    }
    updated_by_stage_[stage_of_layer_[layer.index()].index()] +=
        updated_[layer.index()];
  }
}

Result<void> ProfilingPipeline::run() {
  PIPEWRIGHT_TRY(const Executed executed, executor_->run(source_, 1));
  for (const auto& spans : executed.timeline.spans)
    for (const Span& span : spans)
      if (span.kind == ActionKind::Step)
        steps_[span.stage.index()].push_back(span.end - span.start);
  return {};
}

void ProfilingPipeline::stop_timing() { executor_->time_layers(nullptr); }

// The host that gives a GPU its kernels is slower for a while now and then: of
// a second of runs on a GPU a quarter are shorter than the one that counts. On
// cores, which all workers need at once, it is the middle one.
Result<PipelineRun> ProfilingPipeline::measured_run() {
  constexpr Seconds kRun{0.05}, kRunOfGpu{0.2}, kRunsOfGpu{1}, kLongStep{0.02},
      kVeryLongStep{0.1}, kTooLongStep{1};
  constexpr double kMaxSteps = 64;  // as a piece of a training has
  stop_timing();
  do {
    if (auto warmed = run_steps(1); !warmed) return warmed.error();
  } while (!is_settled());
  PIPEWRIGHT_TRY(Timeline first, run_steps(2));
  const Seconds step = std::max(first.step_seconds, Seconds(1e-6));
  const OptimizerChoice& optimizer = settings_.optimizer;
  if (step > kTooLongStep)
    return PipelineRun{plan_, std::move(first), optimizer};
  const bool is_gpu = settings_.device != "cpu";
  const double steps =
      std::clamp((is_gpu ? kRunOfGpu : kRun) / step, 3.0, kMaxSteps);
  double num_runs = 7;
  if (step > kLongStep) num_runs = step > kVeryLongStep ? 1 : 3;
  if (is_gpu) num_runs = std::max(num_runs, kRunsOfGpu / (step * steps));
  std::vector<Timeline> runs;
  for (int i = 0; i < static_cast<int>(num_runs); ++i) {
    PIPEWRIGHT_TRY(runs.emplace_back(), run_steps(static_cast<int>(steps)));
  }
  const auto counts = runs.begin() + static_cast<std::ptrdiff_t>(
                                         runs.size() / (is_gpu ? 4 : 2));
  std::nth_element(runs.begin(), counts, runs.end(),
                   [](const Timeline& a, const Timeline& b) {
                     return a.duration < b.duration;
                   });
  return PipelineRun{plan_, std::move(*counts), optimizer};
}

CommandMessage ProfilingPipeline::follow() {
  stop_timing();
  return executor_->follow(source_);
}

Result<Timeline> ProfilingPipeline::run_steps(int steps) {
  PIPEWRIGHT_TRY(Executed executed, executor_->run(source_, steps));
  return std::move(executed.timeline);
}

void ProfilingPipeline::clear() {
  layers_->clear();
  for (auto& steps : steps_) steps.clear();
}

std::size_t ProfilingPipeline::num_samples() const {
  return layers_->num_samples(LayerStopwatch::Part::Forward, LayerId(0));
}

std::vector<Seconds> ProfilingPipeline::updates(LayerId layer) const {
  if (updated_[layer.index()] == Bytes(0)) return {};
  const std::size_t stage = stage_of_layer_[layer.index()].index();
  const double share = static_cast<double>(updated_[layer.index()].value()) /
                       static_cast<double>(updated_by_stage_[stage].value());
  std::vector<Seconds> seconds = steps_[stage];
  for (Seconds& step : seconds) step = step * share;
  return seconds;
}

}  // namespace pipewright
