// Interleaved 1F1B: v stages per worker, stage s on worker s mod p. The bubble
// shrinks v times, transfers grow v times.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM", SC 2021. Microbatches go in groups: a worker
// runs its first stage for all of a group, then its second, and so on. The
// paper wants groups of p, so p must divide M; otherwise we take floor(M/p)
// groups (one, if M < p) as equal as can be: groups of p or more leave no
// bubble.
//
//   p = 2, v = 2, M = 2 with F = B, as stage, kind and microbatch:
//   0 |0F00F12F02F1   2B0   2B10B00B1
//   1 |   1F01F13F03B03F13B11B01B1
//
// Step M(F+B) + (p-1)(F+B)/v where M >= p, F and B being those of a whole
// worker. Ahead of its first backward worker i (from 1) runs 2(p-i) + (v-1)g
// forwards, g the size of the largest group.

#include <algorithm>

#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

// A worker's stages and microbatches in forward order; in backward order its
// stages are reversed within each group.
std::vector<ComputeAction> in_groups(int worker, const ScheduleRequest& request,
                                     ComputeKind kind) {
  const int groups = std::max(1, request.microbatches / request.workers);
  std::vector<ComputeAction> order;
  int first = 0;
  for (int g = 0; g < groups; ++g) {
    const int left = groups - g;
    const int end = first + (request.microbatches - first + left - 1) / left;
    for (int i = 0; i < request.chunks; ++i) {
      const int chunk =
          kind == ComputeKind::Forward ? i : request.chunks - 1 - i;
      const StageId stage(chunk * request.workers + worker);
      for (int m = first; m < end; ++m) order.push_back({stage, m, kind});
    }
    first = end;
  }
  return order;
}

std::vector<ComputeAction> interleaved_order(int worker,
                                             const ScheduleRequest& request) {
  const auto forwards = in_groups(worker, request, ComputeKind::Forward);
  const auto backwards = in_groups(worker, request, ComputeKind::Backward);
  const int groups = std::max(1, request.microbatches / request.workers);
  const int group = (request.microbatches + groups - 1) / groups;
  const auto warm_up = std::min<std::size_t>(
      forwards.size(),
      static_cast<std::size_t>(2 * (request.workers - 1 - worker) +
                               (request.chunks - 1) * group));
  std::vector<ComputeAction> order(
      forwards.begin(),
      forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (warm_up + i < forwards.size()) order.push_back(forwards[warm_up + i]);
    order.push_back(backwards[i]);
  }
  return order;
}

}  // namespace

ScheduleGenerator interleaved() {
  return {"interleaved", "v stages a worker: a v-th of 1f1b's bubble",
          "Efficient Large-Scale Language Model Training on GPU Clusters Using "
          "Megatron-LM, SC 2021",
          [](const ScheduleRequest& request) {
            Orders orders;
            for (int w = 0; w < request.workers; ++w)
              orders.push_back(interleaved_order(w, request));
            return Schedule::create(request.workers * request.chunks,
                                    request.microbatches, std::move(orders));
          }};
}

}  // namespace pipewright
