// What handing tensors over takes: a pipeline of the model is run over the
// ranks of a training, before it begins.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/profiling/profiling_pipeline.h"
#include "pipewright/runtime/ranks/commands.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {

struct HandoverPipeline {
  const Model& model;
  int microbatch = 1;
  int workers = 1;                  // of all ranks
  ProfilingSettings settings = {};  // but for the transport
};

// On the leader. Fails as a training does if a worker is lost.
Result<PipelineRun> measured_handovers(const HandoverPipeline& wanted,
                                       Transport& transport);
// On the other ranks; returns the command that ended it.
CommandMessage follow_handovers(const HandoverPipeline& wanted,
                                Transport& transport);

}  // namespace pipewright
