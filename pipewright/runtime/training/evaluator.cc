#include "pipewright/runtime/training/evaluator.h"

#include "pipewright/plan/lowering/forward_program.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/training/score.h"

namespace pipewright {
namespace {

int num_microbatches(const Dataset& samples, int microbatch) {
  return static_cast<int>((samples.num_samples + microbatch - 1) / microbatch);
}

TrainingSettings settings_for(const Dataset& samples) {
  TrainingSettings settings;
  settings.evaluated_samples = samples.num_samples;
  return settings;
}

}  // namespace

Evaluator::Evaluator(const Model& model, const Program& program,
                     Dataset samples, Executor::Devices devices)
    : samples_(std::make_unique<const Dataset>(std::move(samples))),
      source_(in_order(*samples_, program.microbatch)),
      executor_(
          model,
          forward_program(program, profile_graph(model),
                          num_microbatches(*samples_, program.microbatch)),
          settings_for(*samples_), nullptr, std::move(devices)) {}

Result<Evaluation> Evaluator::run(const Trained& trained) {
  TrainingState state;
  state.parameters = trained.parameters;
  state.statistics = trained.statistics;
  state.optimizer.resize(trained.parameters.size());
  state.velocity.resize(trained.parameters.size());
  executor_.resume(state);
  PIPEWRIGHT_TRY(const Executed done, executor_.run(source_, 1));
  Evaluation evaluation;
  evaluation.samples = done.score.samples;
  evaluation.loss = done.score.loss / static_cast<double>(done.score.samples);
  if (done.score.targets > 0)
    evaluation.accuracy = static_cast<double>(done.score.hits) /
                          static_cast<double>(done.score.targets);
  evaluation.seconds = done.timeline.duration;
  return evaluation;
}

}  // namespace pipewright
