// V-Half: half of 1F1B's memory, half of its bubble.
//
// Qi, Wan, Amar, Lin, "Pipeline Parallelism with Controllable Memory", NeurIPS
// 2024. A microbatch waits one slot at every worker on the way down the V, and
// none on the way up; the same holds for its gradient. The slots of the block
// are those of the authors' published scheduler
// (sail-sg/zero-bubble-pipeline-parallelism).
//
// Capitals are the stage on the way down the V, small letters that on the way
// up:
//
//   0: F0F1      f0i0F2w0f1i1w1I0F3W0f2i2w2I1W1  f3i3I2w3W2  I3W3
//   1:   F0    f0F1  i0f1w0F2I0i1W0f2w1F3I1i2W1f3w2I2i3W2w3I3W3
//   2:     F0f0    F1f1i0I0w0F2W0f2i1I1w1F3W1f3i2I2w2W2i3I3w3W3
//
// A worker holds at most 2 floor((p+2)/2) activations, each for half of its
// layers. At F = I = W = 1 per stage its bubble is 3(p-1), or 3p-4 for odd p
// (1F1B: 6(p-1)).

#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/stable_pattern.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

Result<Schedule> generate_v_half(const ScheduleRequest& request) {
  const int p = request.workers;
  // For even p the gradient would arrive in a slot that is in use.
  const int wait = p % 2 == 0 ? 3 : 0;
  std::vector<BuildingBlock> blocks;
  for (int w = 0; w < p; ++w)
    blocks.push_back({.forward_down = 2 * w,
                      .forward_up = 3 * p - 2 - w,
                      .input_up = 3 * p - 1 + wait + 2 * w,
                      .input_down = 6 * p - 2 + wait - w});
  const int limit = 2 * ((p + 2) / 2);
  return Schedule::create(
      2 * p, request.microbatches,
      repeat_building_block(blocks, request.microbatches, limit));
}

}  // namespace

ScheduleGenerator v_half() {
  return {"v-half", "half of 1f1b's memory and bubble; two stages per worker",
          "Pipeline Parallelism with Controllable Memory, NeurIPS 2024",
          generate_v_half};
}

}  // namespace pipewright
