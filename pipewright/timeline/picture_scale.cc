#include "pipewright/timeline/picture_scale.h"

#include <algorithm>
#include <cmath>

namespace pipewright {

std::vector<Span> own_spans(const Timeline& timeline, std::size_t worker) {
  std::vector<Span> own;
  if (worker >= timeline.spans.size()) return own;
  for (const Span& span : timeline.spans[worker])
    if (is_compute(span.kind) || span.kind == ActionKind::Step)
      own.push_back(span);
  for (std::size_t i = 0; i < own.size();) {
    std::size_t end = i + 1;
    while (end < own.size() && own[end].start == own[i].start &&
           own[end].end == own[i].end)
      ++end;
    const Seconds start = own[i].start;
    const Seconds part = (own[i].end - start) / static_cast<double>(end - i);
    for (std::size_t k = i; end - i > 1 && k < end; ++k) {
      own[k].start = start + part * static_cast<double>(k - i);
      own[k].end = own[k].start + part;
    }
    i = end;
  }
  return own;
}

Seconds natural_unit(const Timeline& timeline) {
  constexpr int kMaxParts = 10;
  std::vector<double> marks;
  double shortest = timeline.duration.value();
  for (std::size_t w = 0; w < timeline.workers.size(); ++w)
    for (const Span& span : own_spans(timeline, w)) {
      marks.push_back(span.start.value());
      marks.push_back(span.end.value());
      if (span.end > span.start)
        shortest = std::min(shortest, (span.end - span.start).value());
    }
  marks.push_back(timeline.duration.value());
  for (int parts = 1; shortest > 0 && parts <= kMaxParts; ++parts) {
    const double unit = shortest / parts;
    if (std::all_of(marks.begin(), marks.end(), [unit](double mark) {
          const double position = mark / unit;
          return std::abs(position - std::round(position)) < 1e-6;
        }))
      return Seconds(unit);
  }
  return Seconds(0);
}

char letter(ActionKind kind) {
  switch (kind) {
    case ActionKind::Forward:
      return 'F';
    case ActionKind::Backward:
      return 'B';
    case ActionKind::BackwardInput:
      return 'I';
    case ActionKind::BackwardWeight:
      return 'W';
    case ActionKind::Recompute:
      return 'R';
    case ActionKind::Step:
      return 'S';
    case ActionKind::Reduce:
      return 'A';
    default:
      return '>';
  }
}

}  // namespace pipewright
