// ZB-H1: 1F1B with the backward split, and W at the end.
//
// Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, section
// 2.1. Stage s of p begins with p-s forwards as in 1F1B, and delays its W by s
// microbatches, so that gradients reach the first stage sooner and the W fill
// the bubble at the end.
//
//   0: F0 F1 F2       I0 W0 F3 I1 W1 F4 I2 W2 I3 W3 I4 W4
//   1:    F0 F1    I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 I4 W3 W4
//   2:       F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 W3 W4
//
// For W <= F, W <= I and M >= p the step is M(F+I+W) + (p-1)(F+I-W). At stage
// s, min(M, p-s) microbatches are between F and I, and min(M, p) between F and
// W: on every stage the peak of 1F1B's first stage.

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

Result<Schedule> generate_zb_h1(const ScheduleRequest& request) {
  const int p = request.workers;
  Orders orders;
  for (int s = 0; s < p; ++s)
    orders.push_back(delayed_weight_order(s, request.microbatches,
                                          {.warm_up = p - s, .delay = s}));
  return Schedule::create(p, request.microbatches, std::move(orders));
}

}  // namespace

ScheduleGenerator zb_h1() {
  return {"zb-h1", "a third of 1f1b's bubble in 1f1b's memory",
          "Zero Bubble Pipeline Parallelism, ICLR 2024", generate_zb_h1};
}

}  // namespace pipewright
