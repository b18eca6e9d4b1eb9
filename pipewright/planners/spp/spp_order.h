// SPP's third step (PE): in which order stages and channels take microbatches,
// how long that takes, and how long it can take at most. On numbers alone;
// the schedules of the same orders are spp-pe, spp-pe-capped and 1f1b.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022. A microbatch passes through J = 4S-3 blocks: each
// stage but the last and each channel both ways, the last stage once. In rounds
// every stage and channel does at most one block of each direction, so a round
// lasts at most C, the largest load of a stage or channel, and
//
//   T <= (M + 4S-4) C + max A = (1 + (4S-4)/M) M C + max A.
//
// Orders that hold fewer microbatches are ours, and so is their bound. With K_s
// microbatches held at stage s the way to the end and back, 4(S-s) rounds, must
// pass before the K_s-th next microbatch may follow. Starting microbatch m in
// round ceil(m x), x = max(1, max_s 4(S-s)/K_s), keeps all of that:
//
//   T <= (ceil((M-1) x) + 4S-3) C + max A.

#pragma once

#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

struct StageLoad {
  Seconds forward, backward;  // of one microbatch
  Seconds tail;               // once, after the last backward
  Seconds channel;            // to the next stage, one microbatch, one way
};

// Microbatches that each stage holds, from the first on.
enum class Credits {
  Rounds,     // 4(S-s): spp-pe
  Channels,   // 2(S-s)+1: spp-pe-capped
  Neighbour,  // S-s+1: 1f1b
};
std::vector<int> credits(Credits kind, int num_stages, int num_microbatches);
const char* schedule_of(Credits kind);

// C: the largest load of a stage or channel for one microbatch.
Seconds largest_load(const std::vector<StageLoad>& stages);
// The largest of a stage's whole work or a channel's: no order is faster.
Seconds load_bound(const std::vector<StageLoad>& stages, int microbatches);
// When the last stage is done, every stage and channel following the order of
// the rounds as early as it can.
Seconds order_seconds(const std::vector<StageLoad>& stages, int microbatches,
                      Credits kind);
// What it can take at most, as above.
Seconds order_bound(const std::vector<StageLoad>& stages, int microbatches,
                    Credits kind);

}  // namespace pipewright
