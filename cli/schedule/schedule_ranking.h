// Several schedules for the same stages, the fastest that fits first.

#pragma once

#include <string>
#include <vector>

#include "cli/schedule/made_schedule.h"

namespace pipewright::cli {

struct RankedSchedule {
  std::string name;
  int stages_per_worker = 1;
  Seconds step;
  double bubble = 0;
  int activations = 0;  // of the worker that holds the most
  Bytes memory;         // the same, if bytes are known
  bool fits = true;
  std::string refusal;  // why there is no such schedule; otherwise ""
};

// "all": every generator whose schedules drain. Otherwise names that commas
// separate.
std::vector<std::string> schedule_names(const std::string& text);

// A worker does the same work in each of them: where it has several stages,
// they are equal parts of its one.
std::vector<RankedSchedule> ranked_schedules(
    const std::vector<std::string>& names, const ScheduleRequest& request,
    const StageInputs& inputs);

}  // namespace pipewright::cli
