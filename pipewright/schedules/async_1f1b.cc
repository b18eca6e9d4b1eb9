// Asynchronous 1F1B: filled once, never drained. In its steady state no worker
// ever waits; the price is that weights change while microbatches are on their
// way, which the method (stash, 2bw, pipemare, ...) has to deal with.
//
// Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN
// Training", SOSP 2019; Yang et al., "PipeMare: Asynchronous Pipeline Parallel
// DNN Training", MLSys 2021.
//
//   p = 3, M = 2:   prologue | body, again and again | epilogue
//   0:              F0 F1    | F2 B0 F3 B1           | ...
//   1:              F0       | F1 B0 F2 B1           | ...
//   2:                       | F0 B0 F1 B1           | ...
//
// Stage i (from 1) runs p-i microbatches ahead, so p-i+1 are in flight.
// Prologue and epilogue together complete ceil((p-1)/M) minibatches. A
// repetition of the body takes M(F+B).

#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

void append_pairs(std::vector<ComputeAction>& order, StageId stage,
                  int microbatches, int ahead, int end_of_forwards) {
  for (int m = 0; m < microbatches; ++m) {
    if (m + ahead < end_of_forwards)
      order.push_back({stage, m + ahead, ComputeKind::Forward});
    order.push_back({stage, m, ComputeKind::Backward});
  }
}

Result<Schedule> generate_async_1f1b(const ScheduleRequest& request) {
  const int p = request.workers, M = request.microbatches;
  Schedule::Sections sections;
  sections.minibatches_outside = (p - 1 + M - 1) / M;
  const int outside = sections.minibatches_outside * M;
  for (int s = 0; s < p; ++s) {
    const StageId stage(s);
    const int ahead = p - 1 - s;
    sections.prologue.emplace_back();
    for (int m = 0; m < ahead; ++m)
      sections.prologue.back().push_back({stage, m, ComputeKind::Forward});
    sections.body.emplace_back();
    append_pairs(sections.body.back(), stage, M, ahead, M + ahead);
    sections.epilogue.emplace_back();
    append_pairs(sections.epilogue.back(), stage, outside, ahead, outside);
  }
  return Schedule::create(p, M, std::move(sections));
}

}  // namespace

ScheduleGenerator async_1f1b() {
  return {"async-1f1b", "filled once, never drained: no bubble, stale weights",
          "PipeDream: Generalized Pipeline Parallelism for DNN Training, "
          "SOSP 2019",
          generate_async_1f1b};
}

}  // namespace pipewright
