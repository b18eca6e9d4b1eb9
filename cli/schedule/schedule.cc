// pipewright schedule: generates a schedule or reads one from a file, checks
// it, and draws its timeline.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/schedule/schedule_chain.h"
#include "cli/simulate/pictures.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/plan/schedule/schedule_csv.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/schedules/makespan.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/timeline/timeline_json.h"

namespace pipewright::cli {
namespace {

struct ScheduleOptions {
  std::string name;
  int stages = 4, microbatches = 8;
  std::optional<int> stages_per_worker;
  std::string times;  // F,I,W
  double transfer = 0, memory = 0;
  std::string csv;
  bool text = false, list = false;
  Pictures pictures;
  Output output;
};

Result<ScheduleRequest::StageTimes> parse_times(const std::string& text) {
  const auto parts = split(text, ',');
  double numbers[3] = {1, 1, 1};
  for (std::size_t i = 0; i < parts.size() && parts.size() == 3; ++i) {
    const auto number = parse_real(trim(parts[i]));
    if (!number || !(*number >= 0))
      return bad_configuration(
          "expected a time in --times, found \"" + std::string(parts[i]) + "\"",
          "seconds of forward, input gradient and weight gradient, for example "
          "1,1,1");
    numbers[i] = *number;
  }
  if (parts.size() != 3)
    return bad_configuration(
        "expected three numbers in --times, found " +
            std::to_string(parts.size()),
        "seconds of forward, input gradient and weight gradient, for example "
        "1,1,1");
  return ScheduleRequest::StageTimes{Seconds(numbers[0]), Seconds(numbers[1]),
                                     Seconds(numbers[2])};
}

ScheduleRequest request_of(const ScheduleOptions& options) {
  ScheduleRequest request;
  request.workers = options.stages;
  request.microbatches = options.microbatches;
  if (options.stages_per_worker)
    request.stages_per_worker = *options.stages_per_worker;
  request.transfer = Seconds(options.transfer);
  if (options.memory != 0) request.memory_limit = {options.memory};
  return request;
}

bool is_file(const std::string& name) {
  return name.find_first_of("./") != std::string::npos;
}

Result<Schedule> read_schedule(const std::string& file) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  if (std::filesystem::path(file).extension() != ".csv")
    return Schedule::parse(text, file);
  PIPEWRIGHT_TRY(const CsvGrid grid, parse_csv(text, file));
  return schedule_of(grid, file);
}

// Some generators ignore the requested number.
Result<void> check_stages_per_worker(const ScheduleOptions& options,
                                     const Schedule& schedule) {
  const int number = schedule.num_stages() / schedule.num_workers();
  if (!options.stages_per_worker || *options.stages_per_worker == number)
    return {};
  return bad_configuration(options.name + " has " + std::to_string(number) +
                               (number == 1 ? " stage" : " stages") +
                               " per worker, not " +
                               std::to_string(*options.stages_per_worker),
                           "omit --stages-per-worker");
}

// All stages have equal times. The number of stages is known only when the
// schedule exists, so a generator that uses times is called twice.
Result<Schedule> schedule_for(const ScheduleOptions& options,
                              ScheduleRequest& request) {
  ScheduleRequest::StageTimes times;
  if (!options.times.empty()) {
    PIPEWRIGHT_TRY(times, parse_times(options.times));
  }
  auto schedule = is_file(options.name)
                      ? read_schedule(options.name)
                      : generate_schedule(options.name, request);
  if (!schedule) return schedule;
  if (auto fine = check_stages_per_worker(options, *schedule); !fine)
    return fine.error();
  request.times.assign(schedule->num_stages(), times);
  if (is_file(options.name) || options.times.empty()) return schedule;
  return generate_schedule(options.name, request);
}

void list_generators(const ScheduleOptions& options) {
  if (options.output.json) {
    Json json = Json::array();
    for (const ScheduleGenerator& g : schedule_generators()) {
      Json one = Json::object();
      one.set("name", g.name);
      one.set("summary", g.summary);
      one.set("source", g.source);
      json.push(std::move(one));
    }
    Json object = Json::object();
    object.set("schedules", std::move(json));
    std::cout << object.to_text();
    return;
  }
  TextTable table({{"name"}, {"description"}});
  for (const ScheduleGenerator& g : schedule_generators())
    table.add_row({g.name, g.summary});
  std::cout << table.to_text(options.output.width);
}

Result<void> write_csv(const Schedule& schedule, const std::string& file) {
  PIPEWRIGHT_TRY(const CsvGrid grid, grid_of(schedule));
  return write_file(file, to_csv(grid));
}

// An asynchronous schedule runs for as many minibatches as it takes to show
// filling, steady state and draining.
Timeline timeline_of(const Schedule& schedule, const TimedSchedule& timed) {
  SimulateOptions how;
  if (schedule.is_asynchronous())
    how.minibatches = schedule.sections().minibatches_outside + 2;
  return simulate(timed.program, timed.costs, how);
}

void print_schedule_json(const ScheduleOptions& options,
                         const Schedule& schedule, const Timeline& timeline) {
  Json json = to_json(timeline);
  json.set("schedule", options.name);
  json.set("stages", schedule.num_stages());
  json.set("microbatches", schedule.num_microbatches());
  Json peaks = Json::array();
  for (int w = 0; w < schedule.num_workers(); ++w)
    peaks.push(peak_activations(schedule, WorkerId(w)));
  json.set("activations_peak", std::move(peaks));
  std::cout << json.to_text();
}

std::string peaks_text(const Schedule& schedule) {
  std::vector<std::string> peaks;
  for (int w = 0; w < schedule.num_workers(); ++w)
    peaks.push_back(std::to_string(peak_activations(schedule, WorkerId(w))));
  const auto same = std::count(peaks.begin(), peaks.end(), peaks.front());
  if (same == schedule.num_workers()) return peaks.front() + " each";
  return join(peaks, " ");
}

void print_schedule(const ScheduleOptions& options, const Schedule& schedule,
                    const Timeline& timeline) {
  std::cout << options.name << ": " << schedule.num_workers() << " workers, "
            << schedule.num_stages() << " stages, "
            << schedule.num_microbatches() << " microbatches\n"
            << drawn(timeline, options.output) << "step "
            << to_text(timeline.step_seconds)
            << (schedule.is_asynchronous() ? " in steady state" : "")
            << ", bubble " << percent(std::max(0.0, timeline.bubble))
            << ", peak activations: " << peaks_text(schedule) << "\n";
}

Result<void> show_schedule(const ScheduleOptions& options) {
  ScheduleRequest request = request_of(options);
  PIPEWRIGHT_TRY(const Schedule schedule, schedule_for(options, request));
  if (!options.csv.empty())
    if (auto written = write_csv(schedule, options.csv); !written)
      return written;
  PIPEWRIGHT_TRY(const TimedSchedule timed, timed_schedule(schedule, request));
  const Timeline timeline = timeline_of(schedule, timed);
  if (auto written = write_pictures(options.pictures, timed.program, timeline);
      !written)
    return written;
  if (options.output.json)
    print_schedule_json(options, schedule, timeline);
  else if (options.text)
    std::cout << schedule.to_text();
  else
    print_schedule(options, schedule, timeline);
  return {};
}

Result<void> run_schedule(const ScheduleOptions& options) {
  if (!options.list && options.name.empty())
    return Error{ErrorCode::Usage,
                 "no schedule given",
                 {},
                 "use a name, a file, or --list",
                 {}};
  if (!options.list) return show_schedule(options);
  list_generators(options);
  return {};
}

}  // namespace

void add_schedule(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("schedule", "Generate, check and draw a schedule");
  auto options = std::make_shared<ScheduleOptions>();
  ScheduleOptions& o = *options;
  command->add_option("NAME", o.name,
                      "A name from --list, or a file: CSV as in "
                      "torch.distributed.pipelining (.csv), otherwise our text "
                      "form");
  command->add_flag("--list", o.list, "List all names with a description");
  command
      ->add_option("--stages,--workers", o.stages,
                   "Number of workers; each has one stage by default")
      ->capture_default_str();
  command
      ->add_option("--microbatches", o.microbatches,
                   "Number of microbatches per minibatch")
      ->capture_default_str();
  command->add_option("--stages-per-worker,--chunks", o.stages_per_worker,
                      "Number of stages per worker, for schedules that support "
                      "it; default: 2");
  command->add_option("--times", o.times,
                      "F,I,W: seconds of a stage's forward, input gradient and "
                      "weight gradient; default: 1,1,1");
  command->add_option("--transfer", o.transfer,
                      "Seconds of a transfer from one stage to the next; "
                      "default: 0");
  command->add_option("--memory", o.memory,
                      "Limit for the microbatch activations that a worker "
                      "holds");
  command->add_option("--csv", o.csv, "Write the schedule to this CSV file");
  command->add_flag("--text", o.text,
                    "Print the schedule as text instead of drawing it");
  add_picture_options(*command, o.pictures);
  add_output_options(*command, o.output);
  command->callback([options, &exit] {
    if (auto result = run_schedule(*options); !result)
      report(result.error(), exit);
  });
}

}  // namespace pipewright::cli
