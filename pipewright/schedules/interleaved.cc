// Interleaved 1F1B: v stages per worker (the paper's model chunks), stage s on
// worker s mod p. The bubble is v times smaller, transfers are v times as many.
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM", SC 2021. Microbatches are divided into groups: a
// worker runs its first stage for a whole group, then its second, and so on.
// The paper has groups of p, so p must divide M. Otherwise we take floor(M/p)
// groups (one if M < p), as equal as possible: groups of at least p add no
// bubble.
//
//   p = 2, v = 2, M = 2 with F = B, as stage, kind and microbatch:
//   0 |0F00F12F02F1   2B0   2B10B00B1
//   1 |   1F01F13F03B03F13B11B01B1
//
// Step M(F+B) + (p-1)(F+B)/v where M >= p, with F and B of a whole worker.
// Before its first backward, worker i (from 1) runs 2(p-i) + (v-1)g forwards,
// where g is the size of the largest group.

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
    for (int i = 0; i < request.stages_per_worker; ++i) {
      const int own =
          kind == ComputeKind::Forward ? i : request.stages_per_worker - 1 - i;
      const StageId stage(own * request.workers + worker);
      for (MicrobatchId m(first); m.value < end; ++m)
        order.push_back({stage, m, kind});
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
  const int warm_up = 2 * (request.workers - 1 - worker) +
                      (request.stages_per_worker - 1) * group;
  std::vector<ComputeAction> order;
  auto forward = forwards.begin();
  for (int i = 0; i < warm_up && forward != forwards.end(); ++i)
    order.push_back(*forward++);
  for (const ComputeAction& backward : backwards) {
    if (forward != forwards.end()) order.push_back(*forward++);
    order.push_back(backward);
  }
  return order;
}

}  // namespace

ScheduleGenerator interleaved() {
  return {"interleaved", "v stages per worker: 1/v of 1f1b's bubble",
          "Efficient Large-Scale Language Model Training on GPU Clusters Using "
          "Megatron-LM, SC 2021",
          [](const ScheduleRequest& request) {
            Orders orders;
            for (int w = 0; w < request.workers; ++w)
              orders.push_back(interleaved_order(w, request));
            return Schedule::create(request.workers * request.stages_per_worker,
                                    request.microbatches, std::move(orders));
          }};
}

}  // namespace pipewright
