// SPP's microbatch scheduler PE: rounds in which every stage and every channel
// processes at most one microbatch forward and one backward, those nearest to
// completion first. For unequal stages or slow channels.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022. The order of rounds is our reconstruction. A
// microbatch passes through 4p-3 blocks: each stage except the last forward and
// backward, each channel in both directions, the last stage once. In round t
// block j processes microbatch t-j, so stage i (from 1) is 4(p-i) rounds ahead
// of its own backward:
//
//   p = 2: stage 1, channel, stage 2, channel, stage 1
//   0 |F0F1F2F3B0==F4B1==F5B2==  B3==  B4==  B5==
//   1 |  F0B0==F1B1==F2B2==F3B3==F4B4==F5B5==
//
// With unequal times the rounds may leave a worker idle while an action is
// ready. So we also try list scheduling with the times and the transfer of the
// request (a delay; in the paper a channel carries one microbatch at a time)
// and keep the faster. Step <= (M+4p-4)C, where C is the largest load of a
// stage or channel.
//
// "spp-pe" holds up to min(M, 4(p-i)) microbatches where the rounds are faster,
// and up to M where list scheduling is. "spp-pe-capped" holds min(M, 2(p-i)+1),
// or fewer by the request's memory limit: enough to overlap channels that are
// no slower than the stages.

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/list_order.h"
#include "pipewright/schedules/makespan.h"
#include "pipewright/schedules/warm_up.h"

namespace pipewright {
namespace {

Result<Schedule> in_rounds(const ScheduleRequest& request) {
  std::vector<int> warm_up;
  for (int s = 0; s < request.workers; ++s)
    warm_up.push_back(std::max(1, 4 * (request.workers - 1 - s)));
  return warmed_up_schedule(request.microbatches, warm_up);
}

Result<Schedule> generate_spp_pe(ScheduleRequest request) {
  PIPEWRIGHT_TRY(Schedule rounds, in_rounds(request));
  if (request.times.empty()) return rounds;
  const std::size_t stages = at(request.workers);
  if (request.times.size() < stages)
    return bad_configuration("times are given for " +
                             std::to_string(request.times.size()) + " of " +
                             std::to_string(stages) + " stages");
  request.times.resize(stages);
  ListOrderRequest list;
  list.workers = list.stages = request.workers;
  list.microbatches = list.in_flight_per_lane = request.microbatches;
  list.worker_of = [](int stage, MicrobatchId) { return stage; };
  list.times = request.times;
  list.transfer = request.transfer;
  PIPEWRIGHT_TRY(Schedule listed,
                 Schedule::create(request.workers, request.microbatches,
                                  list_order(list)));
  const bool is_faster =
      schedule_makespan(listed, request) < schedule_makespan(rounds, request);
  return is_faster ? listed : rounds;
}

// A stage must not hold more than the stage before it, which could never supply
// as many.
Result<Schedule> generate_capped(const ScheduleRequest& request) {
  std::vector<int> warm_up;
  int held = request.microbatches;
  for (int s = 0; s < request.workers; ++s) {
    int cap = 2 * (request.workers - 1 - s) + 1;
    if (!request.memory_limit.empty()) {
      const double limit = request.memory_limit[at(s)];
      if (limit < 1)
        return bad_configuration("worker " + std::to_string(s) +
                                 " may hold less than one microbatch");
      if (limit < cap) cap = static_cast<int>(limit);
    }
    held = std::min(held, cap);
    warm_up.push_back(held);
  }
  return warmed_up_schedule(request.microbatches, warm_up);
}

}  // namespace

ScheduleGenerator spp_pe() {
  return {"spp-pe", "rounds, nearest to completion first: for unequal stages",
          "Efficient Pipeline Planning for Expedited Distributed DNN Training, "
          "INFOCOM 2022",
          generate_spp_pe};
}

ScheduleGenerator spp_pe_capped() {
  return {"spp-pe-capped", "spp-pe within a memory limit",
          "Efficient Pipeline Planning for Expedited Distributed DNN Training, "
          "INFOCOM 2022",
          generate_capped};
}

}  // namespace pipewright
