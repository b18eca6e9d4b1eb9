// Orders by list scheduling: each worker, whenever it is idle, takes the most
// urgent action that is ready. For generators whose order is best described by
// what it prefers: Chimera's two directions, Hanayo's waves.
//
// Knows the times it is told and nothing of links but a delay.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/plan/schedule/schedule.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {

struct ListOrderRequest {
  int workers = 1;
  int stages = 1;
  int microbatches = 1;
  // Microbatches of one lane share a limit on how many are on their way from
  // their first forward to their last backward. Lane of m is m % lanes.
  int lanes = 1;
  int in_flight_per_lane = 1;
  std::function<int(int stage, int microbatch)> worker_of;
  // Per stage; empty: a forward takes as long as a backward.
  std::vector<ScheduleRequest::StageTimes> times;
  Seconds transfer;
};

// Backwards before forwards, then earlier microbatches, then later stages.
// O(n log n) in the number of actions.
Orders list_order(const ListOrderRequest& request);

}  // namespace pipewright
