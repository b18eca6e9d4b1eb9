// Looped breadth-first: v stages per worker, stage s on worker s mod p. A
// worker runs all microbatches of one stage before the next stage. A stage's
// weights are needed in one interval only, which suits sharded weights.
//
// Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023.
//
//   p = 2, v = 2, M = 2 with F = B, as stage, kind and microbatch:
//   0 |0F00F12F02F1      2B02B10B00B1
//   1 |   1F01F13F03F13B03B11B01B1
//
// Step M(F+B) + (p-1)(F+B)/v where M >= p, with F and B of a whole worker; in
// flight M at every stage.

#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

std::vector<ComputeAction> looped_bfs_order(int worker,
                                            const ScheduleRequest& request) {
  const int p = request.workers, v = request.stages_per_worker;
  std::vector<ComputeAction> order;
  for (int i = 0; i < v; ++i)
    for (MicrobatchId m(0); m.value < request.microbatches; ++m)
      order.push_back({StageId(i * p + worker), m, ComputeKind::Forward});
  for (int i = v - 1; i >= 0; --i)
    for (MicrobatchId m(0); m.value < request.microbatches; ++m)
      order.push_back({StageId(i * p + worker), m, ComputeKind::Backward});
  return order;
}

}  // namespace

ScheduleGenerator looped_bfs() {
  return {"looped-bfs",
          "v stages per worker, one after the other: for sharded weights",
          "Breadth-First Pipeline Parallelism, MLSys 2023",
          [](const ScheduleRequest& request) {
            Orders orders;
            for (int w = 0; w < request.workers; ++w)
              orders.push_back(looped_bfs_order(w, request));
            return Schedule::create(request.workers * request.stages_per_worker,
                                    request.microbatches, std::move(orders));
          }};
}

}  // namespace pipewright
