// Chimera: two pipelines in opposite directions over the same workers. Stage s
// is on worker s for even microbatches and on worker p-1-s for odd ones, so
// that one direction computes where the other would wait. Weights are held
// twice.
//
// Li and Hoefler, "Chimera: Efficiently Training Large-Scale Neural Networks
// with Bidirectional Pipelines", SC 2021.
//
//   p = 4, M = 4 with F = B, as stage, kind and microbatch:
//   0 |0F00F2   3F13B13F33B30B0   0B2
//   1 |   1F02F11F22F32B11B02B31B2
//   2 |   1F12F01F32F22B01B12B21B3
//   3 |0F10F3   3F03B03F23B20B1   0B3
//
// The paper merges two 1F1B orders slot by slot, which needs p even and M a
// multiple of p. Here list scheduling with p/2 microbatches in flight per
// direction gives the same order, for any p and M. With p odd, the middle stage
// has only one worker, which serves both directions.
//
// At M = p, p even: M(F+B) + (p-2)max(F,B), which is (p/2-1)(F+B) more than
// M(F+B) where F = B. With B = 2F that is the paper's bubble ratio of
// (p-2)/(3M/2 + p-2). Then (p/2-1)(F+B) is not possible: at p = 4 no order of
// these stages on these workers takes less than ours (a test tries all of
// them). In flight at a worker: at most p of M.

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/list_order.h"

namespace pipewright {

ScheduleGenerator chimera() {
  return {"chimera", "two directions at once: half the bubble, weights twice",
          "Chimera: Efficiently Training Large-Scale Neural Networks with "
          "Bidirectional Pipelines, SC 2021",
          [](const ScheduleRequest& request) {
            const int p = request.workers;
            ListOrderRequest list;
            list.workers = list.stages = p;
            list.microbatches = request.microbatches;
            list.lanes = 2;
            list.in_flight_per_lane = (p + 1) / 2;
            list.worker_of = [p](int stage, MicrobatchId microbatch) {
              return microbatch.value % 2 == 0 ? stage : p - 1 - stage;
            };
            return Schedule::create(p, request.microbatches, list_order(list));
          }};
}

}  // namespace pipewright
