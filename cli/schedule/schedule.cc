// pipewright schedule: generates a schedule or reads one from a file, checks
// it, and draws its timeline.

#include <algorithm>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/schedule/made_schedule.h"
#include "cli/schedule/schedule_chain.h"
#include "cli/schedule/schedule_ranking.h"
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
  std::optional<int> stages;
  int microbatches = 8;
  std::optional<int> stages_per_worker;
  StageInputOptions inputs;
  double transfer = 0;
  std::string csv;
  bool text = false, list = false;
  Pictures pictures;
  Output output;
};

// Workers: as asked, or as many as there are stages in a list.
ScheduleRequest request_of(const ScheduleOptions& options,
                           const StageInputs& inputs) {
  constexpr int kDefaultWorkers = 4;
  ScheduleRequest request;
  request.workers = options.stages.value_or(
      inputs.num_stages() > 1 ? inputs.num_stages() : kDefaultWorkers);
  request.microbatches = options.microbatches;
  if (options.stages_per_worker)
    request.stages_per_worker = *options.stages_per_worker;
  request.transfer = Seconds(options.transfer);
  return request;
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

void print_schedule_json(const ScheduleOptions& options,
                         const MadeSchedule& made, const Timeline& timeline) {
  const Schedule& schedule = made.schedule;
  Json json = to_json(timeline);
  json.set("schedule", options.name);
  json.set("stages", schedule.num_stages());
  json.set("microbatches", schedule.num_microbatches());
  Json peaks = Json::array();
  for (int w = 0; w < schedule.num_workers(); ++w)
    peaks.push(peak_activations(schedule, WorkerId(w)));
  json.set("activations_peak", std::move(peaks));
  if (!made.inputs.activations.empty()) {
    Json bytes = Json::array();
    for (int w = 0; w < schedule.num_workers(); ++w)
      bytes.push(peak_bytes(schedule, WorkerId(w), made.inputs).value());
    json.set("memory_peak_bytes", std::move(bytes));
  }
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

// The first words of a picture, too.
std::string title_of(const MadeSchedule& made) {
  return made.name + ": " + counted(made.schedule.num_workers(), "worker") +
         ", " + made.stages + ", " +
         counted(made.schedule.num_microbatches(), "microbatch");
}

void print_schedule(const ScheduleOptions& options, const MadeSchedule& made,
                    const Timeline& timeline) {
  const Schedule& schedule = made.schedule;
  std::cout << title_of(made) << "\n"
            << drawn(timeline, options.output) << "step "
            << to_text(timeline.step_seconds)
            << (schedule.is_asynchronous() ? " in steady state" : "")
            << ", bubble " << percent(std::max(0.0, timeline.bubble))
            << ", peak activations: " << peaks_text(schedule);
  if (!made.inputs.activations.empty())
    std::cout << ", peak memory: " << to_text(peak_bytes(made));
  std::cout << "\n";
}

// At least one forward and one backward.
double actions_of(const ScheduleRequest& request) {
  return 2.0 * request.workers * request.microbatches *
         request.stages_per_worker;
}

double actions_of(const Schedule& schedule) {
  double actions = 0;
  const auto& sections = schedule.sections();
  for (const Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    for (const auto& order : *orders)
      actions += static_cast<double>(order.size());
  return actions;
}

// Timing a schedule takes about ten microseconds per action.
Result<void> check_actions(double actions) {
  constexpr std::int64_t kMaxTimed = 500'000;
  if (actions <= kMaxTimed) return {};
  return bad_configuration(
      "the schedule has about " + to_text(actions) +
          " actions, too many to time and draw; the limit is " +
          with_thousands(kMaxTimed),
      "use fewer microbatches, workers or stages per worker; or --text, which "
      "only prints the order");
}

Result<void> show_schedule(const ScheduleOptions& options,
                           const StageInputs& inputs) {
  const ScheduleRequest request = request_of(options, inputs);
  const bool is_timed = !options.text || !options.pictures.is_empty();
  if (is_timed && !is_schedule_file(options.name))
    if (auto fine = check_actions(actions_of(request)); !fine) return fine;
  PIPEWRIGHT_TRY(
      const MadeSchedule made,
      make_schedule(options.name, request, options.stages_per_worker, inputs));
  const Schedule& schedule = made.schedule;
  if (auto fits = check_limit(made); !fits) return fits;
  if (!options.csv.empty())
    if (auto written = write_csv(schedule, options.csv); !written)
      return written;
  if (options.text) std::cout << schedule.to_text();
  if (!is_timed) return {};
  if (auto fine = check_actions(actions_of(schedule)); !fine) return fine;
  PIPEWRIGHT_TRY(const TimedSchedule timed,
                 timed_schedule(schedule, made.request));
  const Timeline timeline = timeline_of(schedule, timed);
  if (auto written = write_pictures(options.pictures, timed.program, timeline,
                                    title_of(made));
      !written)
    return written;
  if (options.output.json)
    print_schedule_json(options, made, timeline);
  else if (!options.text)
    print_schedule(options, made, timeline);
  return {};
}

Json ranking_json(const std::vector<RankedSchedule>& rows) {
  Json list = Json::array();
  for (const RankedSchedule& row : rows) {
    Json json = Json::object();
    json.set("schedule", row.name);
    if (!row.refusal.empty()) {
      list.push(json.set("refused", row.refusal));
      continue;
    }
    json.set("stages_per_worker", row.stages_per_worker);
    json.set("step_seconds", row.step.value()).set("bubble", row.bubble);
    json.set("activations_peak", row.activations);
    json.set("memory_peak_bytes", row.memory.value());
    list.push(json.set("fits", row.fits));
  }
  return Json::object().set("schedules", std::move(list));
}

void print_ranking(const std::vector<RankedSchedule>& rows,
                   const StageInputs& inputs, int width) {
  constexpr auto kRight = TextTable::Align::Right;
  const bool has_bytes = !inputs.activations.empty();
  std::vector<TextTable::Column> columns = {{"schedule"},
                                            {"stages per worker", kRight},
                                            {"step", kRight},
                                            {"bubble", kRight},
                                            {"activations", kRight}};
  if (has_bytes) columns.push_back({"memory", kRight});
  if (inputs.counts_bytes()) columns.push_back({"fits"});
  TextTable table(columns);
  for (const RankedSchedule& row : rows) {
    if (!row.refusal.empty()) continue;
    std::vector<std::string> cells = {
        row.name, std::to_string(row.stages_per_worker), to_text(row.step),
        percent(row.bubble), std::to_string(row.activations)};
    if (has_bytes) cells.push_back(to_text(row.memory));
    if (inputs.counts_bytes()) cells.push_back(row.fits ? "yes" : "no");
    table.add_row(cells);
  }
  std::cout << table.to_text(width)
            << "activations and memory: of the worker that holds the most. "
               "Every worker does the same work in\neach row: several stages "
               "of a worker are equal parts of its one.\n";
  for (const RankedSchedule& row : rows)
    if (!row.refusal.empty())
      std::cout << row.name << ": " << row.refusal << "\n";
}

// A ranking refuses what no schedule is called; one that is not possible is a
// row of it.
Result<void> check_names(const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const ScheduleGenerator& generator : schedule_generators())
    known.push_back(generator.name);
  for (const std::string& name : names)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return bad_configuration("unknown schedule \"" + printable(name) + "\"",
                               suggestion(name, known));
  return {};
}

// Fails if none fits.
Result<void> show_ranking(const ScheduleOptions& options,
                          const StageInputs& inputs) {
  const ScheduleRequest request = request_of(options, inputs);
  if (auto fine = check_actions(actions_of(request)); !fine) return fine;
  const std::vector<std::string> names = schedule_names(options.name);
  if (auto fine = check_names(names); !fine) return fine;
  const auto rows = ranked_schedules(names, request, inputs);
  if (options.output.json)
    std::cout << ranking_json(rows).to_text();
  else
    print_ranking(rows, inputs, options.output.width);
  if (rows.front().fits) return {};
  if (!rows.front().refusal.empty())
    return bad_configuration("none of these schedules is possible: " +
                             rows.front().refusal);
  return bad_configuration(
      "none of these schedules is possible within the "
      "limits",
      "use more memory, smaller microbatches or other "
      "schedules");
}

Result<void> run_schedule(const ScheduleOptions& options) {
  if (!options.list && options.name.empty())
    return Error{ErrorCode::Usage,
                 "no schedule given",
                 {},
                 "use a name, a file, or --list",
                 {}};
  if (options.list) {
    list_generators(options);
    return {};
  }
  PIPEWRIGHT_TRY(const StageInputs inputs, stage_inputs(options.inputs));
  const bool is_ranking =
      options.name == "all" || options.name.find(',') != std::string::npos;
  if (!is_ranking) return show_schedule(options, inputs);
  if (!options.csv.empty() || options.text || !options.pictures.is_empty())
    return Error{ErrorCode::Usage,
                 "several schedules are ranked, not drawn or written",
                 {},
                 "name one schedule with --csv, --text, --svg or --trace",
                 {}};
  return show_ranking(options, inputs);
}

}  // namespace

void add_schedule(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("schedule", "Generate, check and draw a schedule");
  auto options = std::make_shared<ScheduleOptions>();
  ScheduleOptions& o = *options;
  command->add_option(
      "NAME", o.name,
      "A name from --list; several, separated by commas, or "
      "all, for a ranking; or a file: a plan (.json), CSV as in "
      "torch.distributed.pipelining (.csv), otherwise our text "
      "form");
  command->add_flag("--list", o.list, "List all names with a description");
  command->add_option("--stages,--workers", o.stages,
                      "Number of workers; each has one stage by default. "
                      "Default: as many as --times has stages, or 4");
  command
      ->add_option("--microbatches", o.microbatches,
                   "Number of microbatches per minibatch")
      ->capture_default_str();
  command->add_option("--stages-per-worker", o.stages_per_worker,
                      "Number of stages per worker, for schedules that support "
                      "it; default: 2");
  command->add_option("--times", o.inputs.times,
                      "F,I,W: seconds of a stage's forward, input gradient and "
                      "weight gradient; one such group for all stages, one per "
                      "stage, separated by ';', or a file with one per line. "
                      "Default: 1,1,1");
  command->add_option("--transfer", o.transfer,
                      "Seconds of a transfer from one stage to the next; "
                      "default: 0");
  command->add_option("--activations", o.inputs.activations,
                      "SIZE[,SIZE...]: bytes that one microbatch keeps in a "
                      "stage; one for all, or one per stage");
  command->add_option("--weights", o.inputs.weights,
                      "SIZE[,SIZE...]: bytes of a stage's weights, gradients "
                      "and optimizer state");
  command->add_option("--memory", o.inputs.memory,
                      "Limit of each worker: bytes, as 10GB, with "
                      "--activations; or a number of activations");
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
