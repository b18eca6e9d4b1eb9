// DualPipeV: a V whose steady state joins the forward of one microbatch with
// the backward of another, so that the compute of one overlaps with the
// communication of the other.
//
// DualPipe is in "DeepSeek-V3 Technical Report" (2024); its V form is in
// deepseek-ai/DualPipe (2025), whose eight phases are followed here.
//
// Capitals are the stage on the way down the V, small letters that on the way
// up; joined actions are underlined:
//
//   0: F0F1F2f0i0w0f1F3b1  f2B0b2    f3B1b3  I2W2I3W3
//                    ----  ----      ----
//   1:   F0f0F1f1F2b0  f2B0F3b1f3B1b2  B2    i3I3w3W3
//                      ------------
//
// A microbatch's backward is whole (B), except at the ends, where delayed W
// fill the bubble. At F = I = W the bubble is the published one,
// (p-1)((F+B) + B - 3W) with B = I+W.
//
// With fewer than 2p microbatches it is the order for 2p without the
// microbatches that do not exist; an action joined with one of them is alone.

#include <algorithm>

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

void fill_dualpipev(OrderWriter& order, VStages v, int w, int p) {
  for (int i = 0; i < 2 * (p - 1 - w); ++i) order.forward(v.down);
  for (int i = 0; i < w + 1; ++i) {
    order.forward(v.down);
    order.forward(v.up);
  }
  for (int i = 0; i < p - 1 - w; ++i) {
    order.input(v.up);
    order.oldest_weight();
    order.forward(v.up);
  }
}

void steady(OrderWriter& order, VStages v, int w, int p, int microbatches) {
  for (int i = 0; i < microbatches - 2 * p + w + 1; ++i) {
    if (i == 0 && w == p - 1) {  // not joined: the next worker waits for F
      order.forward(v.down);
      order.whole_backward(v.up);
    } else {
      order.forward_with_backward(v.down, v.up);
    }
    order.forward_with_backward(v.up, v.down);
  }
  for (int i = 0; i < p - 1 - w; ++i) {
    order.whole_backward(v.up);
    order.forward_with_backward(v.up, v.down);
  }
}

// In the second half only gradients are sent, and W fill the bubble.
void drain(OrderWriter& order, VStages v, int w, int p) {
  const int halfway = w + 1;  // counted in the 2(w+1) backwards that follow
  for (int i = 0; i < 2 * (w + 1); ++i) {
    const StageId stage = i % 2 == 0 ? v.up : v.down;
    i < halfway ? order.whole_backward(stage) : order.input(stage);
  }
  for (int i = 0; i < p - 1 - w; ++i) {
    order.oldest_weight();
    order.input(v.down);
  }
  order.all_weights();
}

Result<Schedule> generate_dualpipev(const ScheduleRequest& request) {
  const int p = request.workers;
  const int written = std::max(request.microbatches, 2 * p);
  Orders orders;
  for (int w = 0; w < p; ++w) {
    OrderWriter order(2 * p, request.microbatches);
    fill_dualpipev(order, v_stages(w, p), w, p);
    steady(order, v_stages(w, p), w, p, written);
    drain(order, v_stages(w, p), w, p);
    orders.push_back(order.take());
  }
  return Schedule::create(2 * p, request.microbatches, std::move(orders));
}

}  // namespace

ScheduleGenerator dualpipev() {
  return {"dualpipev",
          "overlaps communication with compute; two stages "
          "per worker",
          "DeepSeek-V3 Technical Report, 2024; deepseek-ai/DualPipe, 2025",
          generate_dualpipev};
}

}  // namespace pipewright
