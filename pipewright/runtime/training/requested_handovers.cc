#include "pipewright/runtime/training/requested_handovers.h"

#include <algorithm>

#include "pipewright/runtime/training/requested_devices.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {
namespace {

// Of one kind, on which handing over counts; GPUs where a pipeline of the
// plan's own stages shows what it costs.
bool has_devices_to_measure(const Model& model, const Plan& plan) {
  if (are_on_cores(plan))
    return has_short_actions(model, plan.microbatch, plan.num_workers());
  return !stages_at_once(plan).empty() &&
         std::all_of(plan.device_kinds.begin(), plan.device_kinds.end(),
                     [&](const auto& kind) {
                       return kind == plan.device_kinds.front();
                     });
}

}  // namespace

bool wants_handovers(const Model& model, const TrainRequest& request) {
  return request.measures_handovers && !is_alone(request) &&
         request.injected_step == 0 &&
         request.plan.num_workers() <= model.num_layers() &&
         has_devices_to_measure(model, request.plan);
}

HandoverPipeline requested_handovers(const Model& model,
                                     const TrainRequest& request) {
  ProfilingSettings settings;
  settings.may_record = false;
  settings.optimizer = request.optimizer;
  if (!are_on_cores(request.plan)) {
    settings.device = request.plan.device_kinds.front();
    settings.may_record = records_actions(request);
    settings.stages = stages_at_once(request.plan);
    settings.first_gpu = request.first_gpu;
  }
  return {model, request.plan.microbatch, request.plan.num_workers(), settings};
}

}  // namespace pipewright
