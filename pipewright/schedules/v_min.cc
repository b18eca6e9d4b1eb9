// V-Min: a third of 1F1B's memory, two thirds of its bubble.
//
// Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS
// 2024. A microbatch goes down and up the V without waiting, and so does its
// gradient, so activations are held for the shortest possible time. The slots
// of the block are those of the authors' published scheduler
// (sail-sg/zero-bubble-pipeline-parallelism).
//
// Capitals are the stage on the way down the V, small letters that on the way
// up:
//
//   0: F0F1          f0i0F2w0    f1i1I0w1F3W0f2i2I1w2W1  f3i3I2w3W2      I3W3
//   1:   F0        f0F1  i0w0  f1F2I0i1W0w1f2F3I1i2W1w2f3  I2i3W2w3    I3W3
//   2:     F0    f0    F1  i0f1w0I0F2W0i1f2w1I1F3W1i2f3w2I2W2  i3w3  I3W3
//   3:       F0f0        F1f1i0I0w0W0F2f2i1I1w1W1F3f3i2I2w2W2    i3I3w3W3
//
// A worker holds at most 2 floor((p+4)/3) activations, each for half of its
// layers. At F = I = W = 1 per stage its bubble is 4p-5, or 4p-3 where 3
// divides p (1F1B: 6(p-1)). The bubble grows if F, I and W differ; that of
// v-half grows less.

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/stable_pattern.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

Result<Schedule> generate_v_min(const ScheduleRequest& request) {
  const int p = request.workers;
  // Where 3 divides p the gradient would arrive in a slot that is in use.
  const int wait = p % 3 == 0 ? 2 : 0;
  std::vector<BuildingBlock> blocks;
  for (int w = 0; w < p; ++w)
    blocks.push_back({.forward_down = w,
                      .forward_up = 2 * p - 1 - w,
                      .input_up = 2 * p + wait + w,
                      .input_down = 4 * p - 1 + wait - w});
  const int limit = 2 * ((p + 4) / 3);
  return Schedule::create(
      2 * p, request.microbatches,
      repeat_building_block(blocks, request.microbatches, limit));
}

}  // namespace

ScheduleGenerator v_min() {
  return {"v-min", "a third of 1f1b's memory; two stages per worker",
          "Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
          generate_v_min};
}

}  // namespace pipewright
