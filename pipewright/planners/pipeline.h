// From what a planner decides (cuts, devices, replicas, schedule) to a Plan.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/planners/planner.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {

// A stage of a chain: layers up to `end`, on these devices.
struct PipelineStage {
  int end = 0;            // the first layer behind it
  int backward_end = -1;  // of its backward; -1: the same
  std::vector<DeviceId> devices;
  bool recompute = false;
};

struct Pipeline {
  int microbatch = 1;
  std::string schedule = "1f1b";  // a generator's name
  int chunks = 1;  // stages per worker: stages.size() is chunks * workers
  Replication replication = Replication::Split;
  std::vector<PipelineStage> stages;
  // For generators that look at them, as in ScheduleRequest; empty: none do.
  std::vector<ScheduleRequest::StageTimes> times;
  Seconds transfer;
};

// The plan of a pipeline for a problem. Stage s of a schedule with chunks runs
// where the schedule has it. Fails as generate_schedule and check_plan do, and
// with BadConfiguration unless stages of one worker name the same devices and
// those of different workers different ones.
Result<Plan> plan_of(const Pipeline& pipeline, const Problem& problem,
                     const std::string& planner);

// The plan, scored. Fails as plan_of and the estimator do.
Result<Planned> planned(const Pipeline& pipeline, const Problem& problem,
                        const std::string& planner);

}  // namespace pipewright
