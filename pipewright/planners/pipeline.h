// What most planners decide (cuts, devices, replicas, schedule), and the Plan
// that follows from it. For planners whose stages are consecutive layers.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/planners/planner.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {

// A stage of consecutive layers, from the end of the stage before.
struct PipelineStage {
  int end = 0;            // one past the last layer
  int backward_end = -1;  // the same for its backward; -1: equal to `end`
  std::vector<DeviceId> devices;
  bool recompute = false;
};

struct Pipeline {
  int microbatch = 1;
  std::string schedule = "1f1b";  // a generator's name; "": an own order
  int stages_per_worker = 1;
  Replication replication = Replication::Split;
  std::vector<PipelineStage> stages;
  // For generators that use times, as in ScheduleRequest; empty: unit times.
  std::vector<ScheduleRequest::StageTimes> times;
  Seconds transfer;
  int layer_groups = 0;  // as in Planned

  int num_workers() const {
    return static_cast<int>(stages.size()) / stages_per_worker;
  }
};

// The plan of a pipeline for a problem. The schedule decides which stages share
// a worker. Fails as generate_schedule and check_plan do, and with
// BadConfiguration unless stages of one worker have the same devices and stages
// of different workers have different ones.
Result<Plan> plan_of(const Pipeline& pipeline, const Problem& problem,
                     const std::string& planner);

// The plan with its estimate. Fails as plan_of and the estimator do.
Result<Planned> planned(const Pipeline& pipeline, const Problem& problem,
                        const std::string& planner);
// The same with a given schedule, without replicas.
Result<Planned> planned(const Pipeline& pipeline, const Schedule& schedule,
                        const Problem& problem, const std::string& planner);

}  // namespace pipewright
