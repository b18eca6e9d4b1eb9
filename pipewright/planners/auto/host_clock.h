// When a pipeline of stages on whole hosts ends its step, from a few numbers
// per stage: a longest path over a schedule's actions, some microseconds
// instead of the simulator's milliseconds. For host_stages.h, which compares
// thousands of pipelines by it.
//
// All replicas of a stage do the same at the same time. A stage sends one
// message at a time, in the order of its actions; messages of different stages
// do not slow each other down. After its last weight gradient a stage sums its
// gradients and updates its weights.

#pragma once

#include <vector>

#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

// Seconds, per microbatch unless noted.
struct HostStageTimes {
  double forward = 0, backward_input = 0, backward_weight = 0;
  double send_forward = 0, send_backward = 0;
  double after = 0;  // per step: the sum of gradients, and the update
};

// Seconds of a step. The schedule has one stage per worker, in the same order.
double host_clock(const Schedule& schedule,
                  const std::vector<HostStageTimes>& stages);

}  // namespace pipewright
