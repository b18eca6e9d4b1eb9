// What is read off the runs of pipelines.

#include "pipewright/timeline/pipeline_run.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

TEST_CASE("actions get longer with the microbatch and shorter with workers") {
  const Model small = load_model("mlp:features=64,classes=10").value();
  const Model large = load_model("gpt2").value();
  CHECK(has_short_actions(small, 8, 2));
  CHECK_FALSE(has_short_actions(large, 8, 2));
  for (const Model* model : {&small, &large})
    for (int workers = 1; workers <= 64; workers *= 2)
      for (int microbatch = 1; microbatch <= 1 << 20; microbatch *= 4)
        CHECK(has_short_actions(*model, microbatch, workers) ==
              has_short_actions(*model, 2 * microbatch, 2 * workers));
}

TEST_CASE("a step's period is the time between the ends of two steps") {
  Timeline timeline;
  timeline.step_seconds = Seconds(7);
  timeline.spans.emplace_back();
  const auto add = [&](int stage, int version, double end) {
    Span span;
    span.kind = ActionKind::Step;
    span.stage = StageId(stage);
    span.version = version;
    span.end = Seconds(end);
    timeline.spans.front().push_back(span);
  };
  CHECK(step_period(timeline) == Seconds(7));
  add(0, 4, 1);
  add(2, 4, 1.5);  // the worker has two stages
  CHECK(step_period(timeline) == Seconds(7));
  add(0, 5, 3);
  add(2, 5, 3.25);
  CHECK(step_period(timeline) == Seconds(2));
  add(0, 9, 13.5);  // those between are not timed
  add(2, 9, 14);
  CHECK(step_period(timeline) == Seconds(2.5));
}

}  // namespace
}  // namespace pipewright
