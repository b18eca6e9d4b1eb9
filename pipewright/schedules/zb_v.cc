// ZB-V: two stages per worker in a V: no bubble in 1F1B's memory.
//
// Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, section
// 6. The first worker has the first and the last stage, so that its gradients
// arrive sooner and its activations are freed sooner.
//
// Capitals are the stage on the way down the V, small letters that on the way
// up:
//
//   0: F0 F1 F2 f0 i0 w0 f1 i1 w1 I0 W0 f2 i2 w2 I1 W1 I2 W2
//   1:    F0 f0 F1 f1 i0 w0 F2 I0 W0 f2 i1 w1 I1 i2 I2 W1 w2 W2
//
// At F = I = W and M >= 2p-1 every worker is busy from its first action to its
// last, and holds at most 2p activations, each for half of its layers: as much
// as the p of 1F1B. With fewer microbatches it is the same order without the
// microbatches that do not exist.

#include <algorithm>

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

std::vector<ComputeAction> worker_order(int w, int p, int microbatches) {
  const auto [down, up] = v_stages(w, p);
  const int written = std::max(microbatches, 2 * p - 1);
  OrderWriter order(2 * p, microbatches);
  // Until the first microbatch is back from the other end of the V.
  for (int i = 0; i < 2 * (p - w) - 1; ++i) order.forward(down);
  for (int i = 0; i < w; ++i) {
    order.forward(up);
    order.forward(down);
  }
  for (int i = 0; i < p - w; ++i) {
    order.forward(up);
    order.backward(up);
  }
  while (order.forwards(up) < written) {
    if (order.forwards(down) < written) order.forward(down);
    order.backward(down);
    order.forward(up);
    order.backward(up);
  }
  // Gradients only, with W between them.
  for (int i = 0; i < w; ++i) {
    order.input(down);
    order.input(up);
  }
  for (int i = 0; i < p - w; ++i) {
    order.input(down);
    order.weight(down);
  }
  order.all_weights();
  return order.take();
}

Result<Schedule> generate_zb_v(const ScheduleRequest& request) {
  const int p = request.workers;
  Orders orders;
  for (int w = 0; w < p; ++w)
    orders.push_back(worker_order(w, p, request.microbatches));
  return Schedule::create(2 * p, request.microbatches, std::move(orders));
}

}  // namespace

ScheduleGenerator zb_v() {
  return {"zb-v",
          "no bubble if F = I = W, in 1f1b's memory; two stages "
          "per worker",
          "Zero Bubble Pipeline Parallelism, ICLR 2024", generate_zb_v};
}

}  // namespace pipewright
