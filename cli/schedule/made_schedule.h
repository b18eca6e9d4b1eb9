// A schedule by name or from a file, with the times and bytes of its stages.

#pragma once

#include <optional>
#include <string>

#include "cli/schedule/stage_inputs.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

struct MadeSchedule {
  std::string name;
  Schedule schedule;
  ScheduleRequest request;  // with the times of every stage
  StageInputs inputs;       // of every stage
  std::string stages;       // "1 stage (14 buckets)"
};

bool is_schedule_file(const std::string& name);

// `name` is that of a generator, or a file: a schedule as text or CSV, or a
// plan. Generators that keep a limit on memory get it.
Result<MadeSchedule> make_schedule(const std::string& name,
                                   const ScheduleRequest& request,
                                   std::optional<int> stages_per_worker,
                                   const StageInputs& inputs);

// Of the worker that holds the most.
Bytes peak_bytes(const MadeSchedule& made);
int peak_activations(const MadeSchedule& made);
// Fails with BadConfiguration, naming the worker and the numbers.
Result<void> check_limit(const MadeSchedule& made);

}  // namespace pipewright::cli
