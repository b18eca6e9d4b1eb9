// Looped breadth-first: v stages per worker, stage s on worker s mod p; every
// microbatch through one stage before the next stage begins. A stage's weights
// are needed for one stretch only, which suits sharded weights.
//
// Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023.
//
//   p = 2, v = 2, M = 2 with F = B, as stage, kind and microbatch:
//   0 |0F00F12F02F1      2B02B10B00B1
//   1 |   1F01F13F03F13B03B11B01B1
//
// Step M(F+B) + (p-1)(F+B)/v where M >= p, F and B being those of a whole
// worker; in flight M at every stage.

#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

std::vector<ComputeAction> looped_bfs_order(int worker,
                                            const ScheduleRequest& request) {
  std::vector<ComputeAction> order;
  for (int chunk = 0; chunk < request.chunks; ++chunk)
    for (int m = 0; m < request.microbatches; ++m)
      order.push_back(
          {StageId(chunk * request.workers + worker), m, ComputeKind::Forward});
  for (int chunk = request.chunks - 1; chunk >= 0; --chunk)
    for (int m = 0; m < request.microbatches; ++m)
      order.push_back({StageId(chunk * request.workers + worker), m,
                       ComputeKind::Backward});
  return order;
}

}  // namespace

ScheduleGenerator looped_bfs() {
  return {"looped-bfs",
          "v stages a worker, one after the other: for sharded weights",
          "Breadth-First Pipeline Parallelism, MLSys 2023",
          [](const ScheduleRequest& request) {
            Orders orders;
            for (int w = 0; w < request.workers; ++w)
              orders.push_back(looped_bfs_order(w, request));
            return Schedule::create(request.workers * request.chunks,
                                    request.microbatches, std::move(orders));
          }};
}

}  // namespace pipewright
