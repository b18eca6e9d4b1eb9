// A pipeline that is run to time its layers: stages of about equal work, or
// those of a plan, one per worker, in 1F1B order, on random data.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/layer_stopwatch.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {

class ProfilingPipeline {
 public:
  // On devices of that kind, given actions as recordings where they may be; a
  // transport outlives the pipeline. Stages, if given, one for each worker.
  // Fails as lowering and open_devices() do.
  static Result<ProfilingPipeline> create(const Model& model, int microbatch,
                                          int workers,
                                          const std::string& device,
                                          bool may_record,
                                          Transport* transport = nullptr,
                                          std::vector<Stage> stages = {});

  // Runs a training step; adds its times to the samples.
  Result<void> run();
  // Layers are not timed from now on.
  void stop_timing();
  // Runs that many steps after one another.
  Result<Timeline> run_steps(int steps);
  // Steps whose layers are not timed: the run that took the median of several.
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
                    bool may_record, Transport* transport);

  Plan plan_;
  std::vector<StageId> stage_of_layer_;
  std::vector<Bytes> updated_;           // by layer
  std::vector<Bytes> updated_by_stage_;  // by stage
  std::unique_ptr<LayerStopwatch> layers_;
  std::vector<std::vector<Seconds>> steps_;  // by stage
  std::unique_ptr<Executor> executor_;
  MicrobatchSource source_;
};

}  // namespace pipewright
