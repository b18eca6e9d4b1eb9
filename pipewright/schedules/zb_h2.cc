// ZB-H2: more forwards first, W delayed further: no bubble in twice the memory.
//
// Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, section
// 2.2. Stage s of p begins with 2(p-s)-1 forwards, which fill the time until
// its first gradient, and delays its W by 2s microbatches.
//
//   0: F0 F1 F2 F3 F4 I0 W0 F5 I1 W1 I2 W2 I3 W3 I4 W4 I5 W5
//   1:    F0 F1 F2 I0 F3 I1 F4 I2 W0 F5 I3 W1 I4 W2 I5 W3 W4 W5
//   2:       F0 I0 F1 I1 F2 I2 F3 I3 F4 I4 W0 F5 I5 W1 W2 W3 W4 W5
//
// For W <= F, 2W <= F + I and M >= 2p-1 the longest worker takes M(F+I+W) +
// (p-1)(F+I-2W), which is only its work at F = I = W. The workers' times are
// shifted relative to each other, so the next minibatch follows without a
// bubble if there is no barrier between steps. At most 2p-1 microbatches are in
// flight.

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

Result<Schedule> generate_zb_h2(const ScheduleRequest& request) {
  const int p = request.workers;
  Orders orders;
  for (int s = 0; s < p; ++s)
    orders.push_back(delayed_weight_order(
        s, request.microbatches, {.warm_up = 2 * (p - s) - 1, .delay = 2 * s}));
  return Schedule::create(p, request.microbatches, std::move(orders));
}

}  // namespace

ScheduleGenerator zb_h2() {
  return {"zb-h2",
          "no bubble if F = I = W except filling, in twice 1f1b's memory",
          "Zero Bubble Pipeline Parallelism, ICLR 2024", generate_zb_h2};
}

}  // namespace pipewright
