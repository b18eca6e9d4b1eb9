#include "pipewright/schedules/async_lead.h"

namespace pipewright {
namespace {

void append_pairs(std::vector<ComputeAction>& order, StageId stage,
                  int microbatches, int ahead, int end_of_forwards) {
  for (MicrobatchId m(0); m.value < microbatches; ++m) {
    if (m.value + ahead < end_of_forwards)
      order.push_back({stage, m + ahead, ComputeKind::Forward});
    order.push_back({stage, m, ComputeKind::Backward});
  }
}

}  // namespace

Result<Schedule> async_with_lead(const ScheduleRequest& request, int lead) {
  const int p = request.workers, M = request.microbatches;
  Schedule::Sections sections;
  sections.minibatches_outside = (lead * (p - 1) + M - 1) / M;
  const int outside = sections.minibatches_outside * M;
  for (int s = 0; s < p; ++s) {
    const StageId stage(s);
    const int ahead = lead * (p - 1 - s);
    sections.prologue.emplace_back();
    for (MicrobatchId m(0); m.value < ahead; ++m)
      sections.prologue.back().push_back({stage, m, ComputeKind::Forward});
    sections.body.emplace_back();
    append_pairs(sections.body.back(), stage, M, ahead, M + ahead);
    sections.epilogue.emplace_back();
    append_pairs(sections.epilogue.back(), stage, outside, ahead, outside);
  }
  return Schedule::create(p, M, std::move(sections));
}

}  // namespace pipewright
