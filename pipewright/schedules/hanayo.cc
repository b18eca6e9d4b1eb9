// Hanayo: waves. With v stages per worker a microbatch runs down the workers
// and up again, v/2 times: stage s is on worker s mod p on the way down and on
// worker p-1 - s mod p on the way up. The bubble is as small as Chimera's, but
// weights are held once, and the turning points need no transfer.
//
// Liu et al., "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced
// Large Model Training Efficiency", SC 2023.
//
//   p = 2, v = 2 (one wave), M = 2 with F = B, as stage, kind and microbatch:
//   0 |0F00F1   3F03B03F13B10B0   0B1
//   1 |   1F02F01F12F12B01B02B11B1
//
// The order comes from list scheduling with p microbatches in flight, for any
// p, v and M; an odd v ends with half a wave.
//
// At M = p, v even: (p-1) 2max(F,B)/v more than M(F+B), where F and B are those
// of a whole worker; the same as interleaved where F = B. The order inside a
// wave is ours.

#include <algorithm>

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/list_order.h"

namespace pipewright {

ScheduleGenerator hanayo() {
  return {"hanayo", "waves down and up the workers: chimera without copies",
          "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced "
          "Large Model Training Efficiency, SC 2023",
          [](const ScheduleRequest& request) {
            const int p = request.workers;
            ListOrderRequest list;
            list.workers = p;
            list.stages = p * request.stages_per_worker;
            list.microbatches = request.microbatches;
            list.in_flight_per_lane = p;
            list.worker_of = [p](int stage, MicrobatchId) {
              return stage / p % 2 == 0 ? stage % p : p - 1 - stage % p;
            };
            return Schedule::create(list.stages, request.microbatches,
                                    list_order(list));
          }};
}

}  // namespace pipewright
