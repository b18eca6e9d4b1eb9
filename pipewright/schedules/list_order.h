// Orders by list scheduling: each worker, whenever it is idle, starts the most
// urgent action that is ready. For generators whose order is best described by
// a priority: Chimera's two directions, Hanayo's waves, SPP.
//
// Knows the times of the request, and of links only a delay.

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
  // At most so many microbatches of one lane are in flight, from their first
  // forward to their last backward. Microbatch m is in lane m % lanes.
  int lanes = 1;
  int in_flight_per_lane = 1;
  std::function<int(int stage, MicrobatchId microbatch)> worker_of;
  // Per stage; empty: a forward takes as long as a backward.
  std::vector<ScheduleRequest::StageTimes> times;
  Seconds transfer;
};

// Backwards before forwards, then earlier microbatches, then later stages.
// O(n log n) in the number of actions.
Orders list_order(const ListOrderRequest& request);

}  // namespace pipewright
