// A pipeline that is run for its layers' times: layers in runs of about equal
// work over the workers, one forward one backward, random data.

#pragma once

#include <memory>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/layer_stopwatch.h"

namespace pipewright {

class ProfilingPipeline {
 public:
  // Fails as lowering does. The model outlives it.
  static Result<ProfilingPipeline> create(const Model& model, int microbatch,
                                          int workers);

  // A training step; its times are added to the samples.
  Result<void> run();
  void forget();  // the samples so far

  // Of every figure of a layer's forward.
  std::size_t num_samples() const;
  const LayerStopwatch& layers() const { return *layers_; }
  // Of the layer's parameters; a tied one counts at its first user. A worker
  // steps all its weights at once: a layer has the share of its bytes.
  std::vector<Seconds> updates(LayerId layer) const;

 private:
  ProfilingPipeline(const Model& model, const Program& program,
                    MicrobatchSource source);

  const Model* model_;
  std::vector<int> stage_of_layer_;
  std::vector<Bytes> updated_;           // by layer
  std::vector<Bytes> updated_by_stage_;  // by stage
  std::unique_ptr<LayerStopwatch> layers_;
  std::vector<std::vector<Seconds>> steps_;  // by stage
  std::unique_ptr<Executor> executor_;
  MicrobatchSource source_;
};

}  // namespace pipewright
