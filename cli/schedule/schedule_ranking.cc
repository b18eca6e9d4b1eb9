#include "cli/schedule/schedule_ranking.h"

#include <algorithm>
#include <tuple>

#include "cli/schedule/schedule_chain.h"
#include "pipewright/base/index.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

template <typename T>
void repeat_for(int workers, std::vector<T>& list) {
  if (list.size() == 1) list.resize(at(workers), list.front());
}

Result<RankedSchedule> rank(const std::string& name,
                            const ScheduleRequest& request,
                            const StageInputs& inputs) {
  PIPEWRIGHT_TRY(const MadeSchedule made,
                 make_schedule(name, request, {}, inputs));
  PIPEWRIGHT_TRY(const TimedSchedule timed,
                 timed_schedule(made.schedule, made.request));
  const Timeline timeline = timeline_of(made.schedule, timed);
  return RankedSchedule{
      name,
      made.schedule.num_stages() / made.schedule.num_workers(),
      timeline.step_seconds,
      std::max(0.0, timeline.bubble),
      peak_activations(made),
      peak_bytes(made),
      check_limit(made).ok(),
      {}};
}

}  // namespace

std::vector<std::string> schedule_names(const std::string& text) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const ScheduleGenerator& generator : schedule_generators())
      if (!generator.name.starts_with("async")) names.push_back(generator.name);
    return names;
  }
  for (std::string_view name : split(text, ',')) names.emplace_back(trim(name));
  return names;
}

std::vector<RankedSchedule> ranked_schedules(
    const std::vector<std::string>& names, const ScheduleRequest& request,
    const StageInputs& inputs) {
  StageInputs each = inputs;
  repeat_for(request.workers, each.times);
  repeat_for(request.workers, each.activations);
  repeat_for(request.workers, each.weights);
  std::vector<RankedSchedule> rows;
  for (const std::string& name : names) {
    Result<RankedSchedule> row = rank(name, request, each);
    if (!row) {
      rows.push_back({});
      rows.back().name = name;
      rows.back().fits = false;
      rows.back().refusal = row.error().to_text();
    } else {
      rows.push_back(*std::move(row));
    }
  }
  const auto key = [](const RankedSchedule& row) {
    return std::tuple(!row.refusal.empty(), !row.fits, row.step);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const RankedSchedule& a, const RankedSchedule& b) {
                     return key(a) < key(b);
                   });
  return rows;
}

}  // namespace pipewright::cli
