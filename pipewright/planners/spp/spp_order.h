// SPP's third step (PE): the order in which stages and channels process
// microbatches, its time, and a bound on that time. Works on plain numbers; the
// schedules with these orders are spp-pe, spp-pe-capped and 1f1b.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022. A microbatch passes through J = 4S-3 blocks: each
// stage except the last and each channel in both directions, the last stage
// once. In a round every stage and channel does at most one block per
// direction. So a round lasts at most C, the largest load of a stage or
// channel, and with the all-reduce A
//
//   T <= (M + 4S-4) C + max A = (1 + (4S-4)/M) M C + max A.
//
// Orders that hold fewer microbatches are ours, and so is their bound. If stage
// s holds K_s microbatches, the 4(S-s) rounds to the end and back must pass
// before the K_s-th next microbatch may follow. Starting microbatch m in round
// ceil(m x), x = max(1, max_s 4(S-s)/K_s), satisfies that for all stages:
//
//   T <= (ceil((M-1) x) + 4S-3) C + max A.

#pragma once

#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

struct StageLoad {
  Seconds forward, backward;  // of one microbatch
  Seconds tail;               // once, after the last backward
  Seconds channel;  // to the next stage, one microbatch, one direction
};

// How many microbatches stage s = 1..S holds.
enum class Credits {
  Rounds,     // 4(S-s): spp-pe
  Channels,   // 2(S-s)+1: spp-pe-capped
  Neighbour,  // S-s+1: 1f1b
};
std::vector<int> credits(Credits kind, int num_stages, int num_microbatches);
const char* schedule_of(Credits kind);

// C: the largest load of a stage or channel for one microbatch.
Seconds largest_load(const std::vector<StageLoad>& stages);
// The time until the last stage is done, if every stage and channel follows the
// order of the rounds and starts as early as possible.
Seconds order_seconds(const std::vector<StageLoad>& stages, int microbatches,
                      Credits kind);
// The bound above.
Seconds order_bound(const std::vector<StageLoad>& stages, int microbatches,
                    Credits kind);

}  // namespace pipewright
