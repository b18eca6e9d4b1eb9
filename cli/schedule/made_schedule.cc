#include "cli/schedule/made_schedule.h"

#include <algorithm>
#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/schedule/schedule_csv.h"
#include "pipewright/schedules/makespan.h"

namespace pipewright::cli {
namespace {

Result<Schedule> read_schedule(const std::string& file, std::string& stages) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  const std::string extension = std::filesystem::path(file).extension();
  if (extension == ".json") {
    PIPEWRIGHT_TRY(Plan plan, parse_plan(text, file));
    stages = stage_count_text(plan);
    return std::move(plan.schedule);
  }
  if (extension != ".csv") return Schedule::parse(text, file);
  PIPEWRIGHT_TRY(const CsvGrid grid, parse_csv(text, file));
  return schedule_of(grid, file);
}

// How many activations surely fit, for generators that count them. 0: none.
double surely_fitting(const StageInputs& inputs, int stages_per_worker) {
  const auto largest = [](const std::vector<Bytes>& list) {
    return list.empty() ? Bytes(0)
                        : *std::max_element(list.begin(), list.end());
  };
  const Bytes left =
      inputs.memory - largest(inputs.weights) * std::int64_t{stages_per_worker};
  const Bytes each = largest(inputs.activations);
  if (left <= Bytes(0) || each <= Bytes(0)) return 0;
  return static_cast<double>(left.value() / each.value());
}

// With bytes, first within the limit, then without: what a schedule holds is
// known better when it exists.
Result<Schedule> generate(const std::string& name, ScheduleRequest request,
                          const StageInputs& inputs) {
  if (inputs.max_activations > 0)
    request.memory_limit = {inputs.max_activations};
  const double count = inputs.counts_bytes()
                           ? surely_fitting(inputs, request.stages_per_worker)
                           : 0;
  if (count >= 1) {
    ScheduleRequest limited = request;
    limited.memory_limit = {count};
    if (auto schedule = generate_schedule(name, limited)) return schedule;
  }
  return generate_schedule(name, request);
}

// Some generators ignore the requested number.
Result<void> check_stages_per_worker(const std::string& name,
                                     std::optional<int> asked,
                                     const Schedule& schedule) {
  const int number = schedule.num_stages() / schedule.num_workers();
  if (!asked || *asked == number) return {};
  return bad_configuration(name + " has " + counted(number, "stage") +
                               " per worker, not " + std::to_string(*asked),
                           "omit --stages-per-worker");
}

bool has_unit_times(const StageInputs& inputs) {
  const ScheduleRequest::StageTimes unit;
  return std::all_of(inputs.times.begin(), inputs.times.end(),
                     [&](const ScheduleRequest::StageTimes& times) {
                       return times.forward == unit.forward &&
                              times.backward_input == unit.backward_input &&
                              times.backward_weight == unit.backward_weight;
                     });
}

}  // namespace

bool is_schedule_file(const std::string& name) {
  return name.find_first_of("./") != std::string::npos;
}

Result<MadeSchedule> make_schedule(const std::string& name,
                                   const ScheduleRequest& request,
                                   std::optional<int> stages_per_worker,
                                   const StageInputs& inputs) {
  const bool is_file = is_schedule_file(name);
  MadeSchedule made{name, {}, request, inputs, {}};
  PIPEWRIGHT_TRY(made.schedule, is_file ? read_schedule(name, made.stages)
                                        : generate(name, request, inputs));
  if (made.stages.empty())
    made.stages = counted(made.schedule.num_stages(), "stage");
  if (auto fine =
          check_stages_per_worker(name, stages_per_worker, made.schedule);
      !fine)
    return fine.error();
  PIPEWRIGHT_TRY(made.inputs, for_stages(inputs, made.schedule.num_stages(),
                                         made.schedule.num_workers()));
  made.request.times = made.inputs.times;
  // The number of stages is known only when the schedule exists, so a generator
  // that uses times is called twice.
  if (is_file || has_unit_times(made.inputs)) return made;
  PIPEWRIGHT_TRY(made.schedule, generate(name, made.request, inputs));
  return made;
}

Bytes peak_bytes(const MadeSchedule& made) {
  Bytes peak;
  for (int w = 0; w < made.schedule.num_workers(); ++w)
    peak = std::max(peak, peak_bytes(made.schedule, WorkerId(w), made.inputs));
  return peak;
}

int peak_activations(const MadeSchedule& made) {
  int peak = 0;
  for (int w = 0; w < made.schedule.num_workers(); ++w)
    peak = std::max(peak, peak_activations(made.schedule, WorkerId(w)));
  return peak;
}

Result<void> check_limit(const MadeSchedule& made) {
  if (!made.inputs.counts_bytes()) return {};
  for (int w = 0; w < made.schedule.num_workers(); ++w)
    if (const Bytes peak = peak_bytes(made.schedule, WorkerId(w), made.inputs);
        peak > made.inputs.memory)
      return bad_configuration(
          made.name + ": worker " + std::to_string(w) + " would hold " +
              to_text(peak) + ", the limit is " + to_text(made.inputs.memory),
          "spp-pe-capped and zero-bubble keep a limit; pipewright schedule all "
          "ranks what fits");
  return {};
}

}  // namespace pipewright::cli
