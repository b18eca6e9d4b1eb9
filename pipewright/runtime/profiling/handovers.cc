#include "pipewright/runtime/profiling/handovers.h"

#include "pipewright/runtime/profiling/profiling_pipeline.h"

namespace pipewright {
namespace {

Result<ProfilingPipeline> pipeline_of(const Handovers& handovers,
                                      Transport& transport) {
  return ProfilingPipeline::create(handovers.model, handovers.microbatch,
                                   handovers.workers, "cpu", false, &transport);
}

}  // namespace

Result<PipelineRun> measured_handovers(const Handovers& handovers,
                                       Transport& transport) {
  PIPEWRIGHT_TRY(ProfilingPipeline pipeline, pipeline_of(handovers, transport));
  return pipeline.measured_run();
}

CommandMessage follow_handovers(const Handovers& handovers,
                                Transport& transport) {
  Result<ProfilingPipeline> pipeline = pipeline_of(handovers, transport);
  if (!pipeline) return next_command(transport);
  return pipeline->follow();
}

}  // namespace pipewright
