// FBP: the forward of one microbatch and the backward of another at once, on a
// device whose resources they share (an FPGA). A pair takes the time of both,
// but needs only half the bandwidth: one activation and one gradient in F+B.
//
// Zhao et al., "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN
// Training", arXiv 2012.12544, 2020. A forward or backward without a partner
// uses the whole device.
//
//   0 |F0F1F2F3F4        F5.B0=B1==  B2==B3==  B4==B5==
//   1 |  F0F1F2    F3.B0=F4.B1=F5.B2=B3==  B4==B5==
//   2 |    F0F1.B0=F2.B1=F3.B2=F4.B3=F5.B4=B5==
//
// Step M(F+B) + (p-1)(F+B); in flight min(M, 2(p-i+1)) at stage i (from 1),
// because the activations of a pair's forward exist while its backward runs.

#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

std::vector<ComputeAction> fbp_order(StageId stage, int microbatches,
                                     int ahead) {
  std::vector<ComputeAction> order;
  for (MicrobatchId m(0); m.value < microbatches + ahead; ++m) {
    const bool has_backward = m.value >= ahead;
    if (m.value < microbatches)
      order.push_back({stage, m, ComputeKind::Forward, has_backward});
    if (has_backward)
      order.push_back({stage, m - ahead, ComputeKind::Backward});
  }
  return order;
}

}  // namespace

ScheduleGenerator fbp() {
  return {"fbp", "forward and backward at once: half the bandwidth (FPGAs)",
          "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN "
          "Training, arXiv 2012.12544, 2020",
          [](const ScheduleRequest& request) {
            Orders orders;
            for (int s = 0; s < request.workers; ++s)
              orders.push_back(fbp_order(StageId(s), request.microbatches,
                                         2 * (request.workers - 1 - s) + 1));
            return Schedule::create(request.workers, request.microbatches,
                                    std::move(orders));
          }};
}

}  // namespace pipewright
