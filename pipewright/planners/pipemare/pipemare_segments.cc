#include "pipewright/planners/pipemare/pipemare_segments.h"

#include <algorithm>

#include "pipewright/schedules/async_deep.h"

namespace pipewright {

Result<Plan> recomputing(Plan plan, int segment) {
  const int stages = plan.num_stages();
  if (plan.num_workers() < stages) {
    for (Stage& stage : plan.stages) stage.recompute = true;
    return plan;
  }
  plan.schedule_name = "async-deep";
  PIPEWRIGHT_TRY(plan.schedule,
                 async_deep_schedule(even_stages(stages, stages),
                                     plan.num_microbatches(), segment));
  for (int s = 0; s < stages; ++s) {
    Stage& stage = plan.stages[StageId(s).index()];
    stage.recompute = segment_end(s, stages, segment).has_value();
    stage.continues = stage.recompute && s % segment > 0;
  }
  return plan;
}

bool has_segments(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return stage.continues; });
}

}  // namespace pipewright
