#include "pipewright/plan/lowering/versions_text.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/plan/lowering/versions.h"

namespace pipewright {
namespace {

constexpr std::size_t kMaxShown = 8;

// The first, the last, and dots between where there are many.
std::string list_text(const std::vector<double>& values) {
  if (std::all_of(values.begin(), values.end(),
                  [&](double value) { return value == values.front(); }))
    return to_text(values.front());
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values.size() <= kMaxShown || i < 3 || i + 2 >= values.size())
      shown.push_back(to_text(values[i]));
    else if (i == 3)
      shown.push_back("...");
  return join(shown, " ");
}

}  // namespace

std::vector<StageDelay> staleness_of(const Plan& plan) {
  const Schedule& schedule = plan.schedule;
  const int outside = schedule.sections().minibatches_outside;
  const int minibatches = outside + 3;
  const Versions versions(
      plan.method,
      progress_of(schedule.unrolled(minibatches), schedule.num_stages(),
                  schedule.num_microbatches(), minibatches),
      schedule.num_microbatches());
  std::vector<StageDelay> stages;
  for (int s = 0; s < schedule.num_stages(); ++s)
    stages.push_back(
        versions.delay({StageId(s), StageId(s), {}, Bytes(0)}, outside + 1));
  return stages;
}

std::string staleness_text(const std::vector<StageDelay>& stages) {
  std::vector<double> forward, backward;
  bool corrected = false, stale = false;
  for (const StageDelay& stage : stages) {
    forward.push_back(stage.forward);
    backward.push_back(stage.backward);
    corrected = corrected || stage.averaging > 0;
    stale = stale || stage.forward != 0 || stage.backward != 0;
  }
  if (!stale) return "";
  return "staleness by stage: " + list_text(forward) + " steps, backward " +
         (backward == forward ? "the same" : list_text(backward)) +
         (corrected ? ", corrected" : "");
}

}  // namespace pipewright
