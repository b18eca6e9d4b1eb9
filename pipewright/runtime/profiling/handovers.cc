#include "pipewright/runtime/profiling/handovers.h"

#include <utility>

namespace pipewright {
namespace {

Result<ProfilingPipeline> pipeline_of(const HandoverPipeline& wanted,
                                      Transport& transport) {
  ProfilingSettings settings = wanted.settings;
  settings.transport = &transport;
  return ProfilingPipeline::create(wanted.model, wanted.microbatch,
                                   wanted.workers, std::move(settings));
}

}  // namespace

Result<PipelineRun> measured_handovers(const HandoverPipeline& wanted,
                                       Transport& transport) {
  PIPEWRIGHT_TRY(ProfilingPipeline pipeline, pipeline_of(wanted, transport));
  return pipeline.measured_run();
}

CommandMessage follow_handovers(const HandoverPipeline& wanted,
                                Transport& transport) {
  Result<ProfilingPipeline> pipeline = pipeline_of(wanted, transport);
  if (!pipeline) return next_command(transport);
  return pipeline->follow();
}

}  // namespace pipewright
