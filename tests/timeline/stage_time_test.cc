// The time of a stage in a step, of runs that were timed in full and of runs of
// which one step was.

#include "pipewright/timeline/stage_time.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

// Two replicas of stage 0 and one worker of stage 1, in three steps of two
// microbatches: 2 s for each microbatch, an update of 1 s, a sum of 4 s.
Timeline three_steps() {
  Timeline timeline;
  timeline.num_stages = 2;
  timeline.num_microbatches = 2;
  timeline.minibatches = 3;
  timeline.spans.resize(3);
  for (int w = 0; w < 3; ++w) {
    double now = 0;
    const auto add = [&](ActionKind kind, int microbatch, double seconds) {
      Span span;
      span.worker = WorkerId(w);
      span.kind = kind;
      span.stage = StageId(w == 2 ? 1 : 0);
      span.microbatch = MicrobatchId(microbatch);
      span.start = Seconds(now);
      span.end = Seconds(now += seconds);
      timeline.spans[std::size_t(w)].push_back(span);
    };
    for (int m = 0; m < 6; ++m) {
      add(ActionKind::Forward, m, 0.5);
      add(ActionKind::Backward, m, 1.5);
      if (m % 2 == 0) continue;
      add(ActionKind::Reduce, m, 4);
      add(ActionKind::Step, m, 1);
    }
  }
  return timeline;
}

TEST_CASE("of a stage: all its replicas, without sums") {
  const Timeline timeline = three_steps();
  CHECK(busy_per_step(timeline, StageId(0)) == Seconds(2 * 5));
  CHECK(busy_per_step(timeline, StageId(1)) == Seconds(5));
}

TEST_CASE("one step that was timed stands for all") {
  Timeline timeline = three_steps();
  for (auto& worker : timeline.spans)
    std::erase_if(worker, [](const Span& span) {
      return is_compute(span.kind) && span.microbatch.value / 2 != 1;
    });
  CHECK(busy_per_step(timeline, StageId(0)) == Seconds(2 * 5));
  CHECK(busy_per_step(timeline, StageId(1)) == Seconds(5));
}

}  // namespace
}  // namespace pipewright
