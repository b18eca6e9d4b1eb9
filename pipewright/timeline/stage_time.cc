#include "pipewright/timeline/stage_time.h"

#include <algorithm>
#include <cstdint>
#include <set>

namespace pipewright {
namespace {

std::int32_t minibatch_of(const Timeline& timeline, const Span& span) {
  return span.microbatch.value / timeline.num_microbatches;
}

// Those in which a worker computes in spans.
std::set<std::int32_t> timed_minibatches(const Timeline& timeline) {
  std::set<std::int32_t> timed;
  for (const auto& worker : timeline.spans)
    for (const Span& span : worker)
      if (is_compute(span.kind)) timed.insert(minibatch_of(timeline, span));
  return timed;
}

}  // namespace

Seconds busy_per_step(const Timeline& timeline, StageId stage) {
  const std::set<std::int32_t> timed = timed_minibatches(timeline);
  const bool is_one = timed.size() == 1;
  Seconds busy;
  for (const auto& worker : timeline.spans)
    for (const Span& span : worker) {
      if (span.stage != stage || span.kind == ActionKind::Reduce) continue;
      if (is_one && minibatch_of(timeline, span) != *timed.begin()) continue;
      busy += span.end - span.start;
    }
  return busy / (is_one ? 1 : std::max(timeline.minibatches, 1));
}

}  // namespace pipewright
