#include "pipewright/timeline/pipeline_run.h"

#include <vector>

namespace pipewright {

Seconds step_period(const Timeline& timeline) {
  std::vector<Seconds> ends;
  for (const Span& span : timeline.spans.front())
    if (span.kind == ActionKind::Step) ends.push_back(span.end);
  if (ends.size() < 2) return timeline.step_seconds;
  return (ends.back() - ends.front()) / static_cast<double>(ends.size() - 1);
}

}  // namespace pipewright
