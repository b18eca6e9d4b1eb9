// A pipeline that is run to time its layers: stages of about equal work, or
// those of a plan, one per worker, in 1F1B order, on random data.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/layer_stopwatch.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {

struct ProfilingSettings {
  std::string device = "cpu";  // the kind that each worker has
  bool may_record = true;      // actions, where the device can
  OptimizerChoice optimizer = {};
  Transport* transport = nullptr;  // outlives the pipeline
  std::vector<Stage> stages = {};  // one for each worker; none: chosen here
  int first_gpu = 0;               // as open_devices() has it
};

class ProfilingPipeline {
 public:
  // Fails as lowering, open_devices() and make_optimizer() do.
  static Result<ProfilingPipeline> create(const Model& model, int microbatch,
                                          int workers,
                                          ProfilingSettings settings);

  // Runs a training step; adds its times to the samples.
  Result<void> run();
  // Layers are not timed from now on.
  void stop_timing();
  // Runs that many steps after one another.
  Result<Timeline> run_steps(int steps);
  // Steps whose layers are not timed: a typical run of several.
  Result<PipelineRun> measured_run();
  // Does what the leader's pipeline does, as Executor::follow() has it.
  CommandMessage follow();
  const Plan& plan() const { return plan_; }
  void clear();  // the samples
  // Whether later steps will take as long as the last.
  bool is_settled() const { return executor_->is_settled(); }

  // Samples of each layer's forward.
  std::size_t num_samples() const;
  const LayerStopwatch& layers() const { return *layers_; }
  // Times of updating the layer's parameters; a tied one counts for its first
  // user. A worker steps all its weights at once: a layer gets the share of its
  // bytes.
  std::vector<Seconds> updates(LayerId layer) const;

 private:
  ProfilingPipeline(const Model& model, Plan plan, const Program& program,
                    MicrobatchSource source, Executor::Devices devices,
                    TrainingSettings training, ProfilingSettings settings);

  Plan plan_;
  ProfilingSettings settings_;
  std::vector<StageId> stage_of_layer_;
  std::vector<Bytes> updated_;           // by layer
  std::vector<Bytes> updated_by_stage_;  // by stage
  std::unique_ptr<LayerStopwatch> layers_;
  std::vector<std::vector<Seconds>> steps_;  // by stage
  std::unique_ptr<Executor> executor_;
  MicrobatchSource source_;
};

}  // namespace pipewright
