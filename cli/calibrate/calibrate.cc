// pipewright calibrate: corrects a cluster file by steps that were measured on
// it.

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli/calibrate/calibration.h"
#include "cli/command.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/base/units_text.h"
#include "pipewright/plan/runs_file.h"

namespace pipewright::cli {
namespace {

constexpr Seconds kMinStep{1e-9};

struct CalibrateOptions {
  std::vector<std::string> pairs;  // PLAN MEASURED ...
  std::string runs;                // file
  PlanInputs inputs;
  std::string file;
  Output output;
};

Error calibrate_usage(const std::string& message) {
  return Error{ErrorCode::Usage,
               message,
               {},
               "pipewright calibrate plan.json 812ms other.json 0.65s "
               "--cluster FILE; or --runs FILE",
               {}};
}

// PLAN MEASURED [PLAN MEASURED ...]; MEASURED is a time such as 812ms, or a
// number of seconds.
Result<std::vector<RunRecord>> runs_of_pairs(
    const std::vector<std::string>& pairs) {
  std::vector<RunRecord> runs;
  if (pairs.size() % 2 != 0)
    return calibrate_usage("each plan needs its measured step after it");
  for (std::size_t i = 0; i < pairs.size(); i += 2) {
    const std::string& text = pairs[i + 1];
    std::optional<Seconds> step = parse_duration(text);
    if (const auto number = parse_real(text); !step && number)
      step = Seconds(*number);
    if (!step || !(*step >= kMinStep) || *step > kMaxTime)
      return calibrate_usage("\"" + text + "\" is not the time of a step");
    runs.push_back({pairs[i], "", "", *step, std::nullopt});
  }
  return runs;
}

// Names of files become relative to the working folder.
Result<std::vector<RunRecord>> runs_of_file(const std::string& file) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  PIPEWRIGHT_TRY(std::vector<RunRecord> runs, parse_runs(text, file));
  const std::size_t slash = file.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "" : file.substr(0, slash + 1);
  for (RunRecord& run : runs)
    for (std::string* name : {&run.plan, &run.profile, &run.cluster})
      if (!name->empty() && name->front() != '/') name->insert(0, folder);
  return runs;
}

Result<std::vector<MeasuredRun>> measured_runs(
    const CalibrateOptions& options) {
  if (options.runs.empty() == options.pairs.empty())
    return calibrate_usage(
        "give either plans with their measured steps, or --runs FILE");
  PIPEWRIGHT_TRY(const std::vector<RunRecord> records,
                 options.runs.empty() ? runs_of_pairs(options.pairs)
                                      : runs_of_file(options.runs));
  std::vector<MeasuredRun> runs;
  for (const RunRecord& record : records) {
    PlanInputs inputs = options.inputs;
    if (!record.profile.empty()) inputs.profile = record.profile;
    if (!record.cluster.empty()) inputs.cluster = record.cluster;
    if (inputs.cluster.empty())
      return calibrate_usage("no cluster for " + record.plan +
                             ": --cluster CLUSTER");
    PIPEWRIGHT_TRY(LoweredPlan lowered, load_lowered(record.plan, inputs));
    runs.push_back({record.plan, inputs.cluster, std::move(lowered),
                    record.step, record.memory});
  }
  return runs;
}

// Of a step, or of memory.
double error_of(double predicted, double measured) {
  return predicted / measured - 1;
}
double step_error(const Prediction& made, const MeasuredRun& run) {
  return error_of(made.step.value(), run.step.value());
}
double memory_error(const Prediction& made, const MeasuredRun& run) {
  return error_of(static_cast<double>(made.memory.value()),
                  static_cast<double>(run.memory->value()));
}

std::string tenths_of_percent(double share) {
  return to_text(std::round(share * 1000) / 10 + 0.0) + " %";  // not -0
}
std::string signed_percent(double share) {
  return (std::round(share * 1000) > 0 ? "+" : "") + tenths_of_percent(share);
}

using ErrorOf = double (*)(const Prediction&, const MeasuredRun&);

std::vector<std::string> error_cells(const std::vector<MeasuredRun>& runs,
                                     const Calibration& done, std::size_t run,
                                     ErrorOf error) {
  return {signed_percent(error(done.before[run], runs[run])),
          signed_percent(error(done.after[run], runs[run])),
          done.left_out.empty()
              ? "-"
              : signed_percent(error(done.left_out[run], runs[run]))};
}

// What the last column shows.
std::string left_out_text(std::size_t num_runs, std::size_t num_groups) {
  if (num_groups == 0) return "(errors of predictions)";
  if (num_groups == num_runs)
    return "(errors of predictions; left out: with what is found without that "
           "run)";
  return "(errors of predictions; left out in " + std::to_string(num_groups) +
         " groups: with what is found without the run's group)";
}

// Of the steps, without their signs, ascending.
std::vector<double> sorted_errors(const std::vector<MeasuredRun>& runs,
                                  const std::vector<Prediction>& predictions) {
  std::vector<double> errors;
  for (std::size_t run = 0; run < runs.size(); ++run)
    errors.push_back(std::abs(step_error(predictions[run], runs[run])));
  std::sort(errors.begin(), errors.end());
  return errors;
}

double median(const std::vector<double>& sorted) {
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half]
                                : (sorted[half - 1] + sorted[half]) / 2;
}

void add_median_and_largest(TextTable& table,
                            const std::vector<MeasuredRun>& runs,
                            const Calibration& done) {
  std::vector<std::string> medians = {"median of steps", ""},
                           largest = {"largest of steps", ""};
  for (const auto* made : {&done.before, &done.after, &done.left_out}) {
    const std::vector<double> errors = sorted_errors(runs, *made);
    medians.push_back(tenths_of_percent(median(errors)));
    largest.push_back(tenths_of_percent(errors.back()));
  }
  table.add_row(medians);
  table.add_row(largest);
}

std::string errors_table(const std::vector<MeasuredRun>& runs,
                         const Calibration& done, int width) {
  using Align = TextTable::Align;
  TextTable table({{"run"},
                   {"measured", Align::Right},
                   {"before", Align::Right},
                   {"calibrated", Align::Right},
                   {"left out", Align::Right}});
  const auto add = [&](std::string name, std::string measured, std::size_t run,
                       ErrorOf error) {
    std::vector<std::string> row = {std::move(name), std::move(measured)};
    for (std::string& cell : error_cells(runs, done, run, error))
      row.push_back(std::move(cell));
    table.add_row(row);
  };
  for (std::size_t run = 0; run < runs.size(); ++run)
    add(runs[run].name, to_text(runs[run].step), run, step_error);
  if (!done.left_out.empty()) add_median_and_largest(table, runs, done);
  for (std::size_t run = 0; run < runs.size(); ++run)
    if (runs[run].memory)
      add("memory of " + runs[run].name, to_text(*runs[run].memory), run,
          memory_error);
  return table.to_text(width) + left_out_text(runs.size(), done.num_groups) +
         "\n";
}

bool is_at_limit(const Calibration& done, Parameter parameter) {
  return std::find(done.at_limit.begin(), done.at_limit.end(), parameter) !=
         done.at_limit.end();
}

bool has_memory(const std::vector<MeasuredRun>& runs) {
  return std::any_of(runs.begin(), runs.end(), [](const MeasuredRun& run) {
    return run.memory.has_value();
  });
}

constexpr const char* kNothingBetter =
    "none makes predictions of runs that are left out clearly better\n";

void print_memory(const std::vector<MeasuredRun>& runs,
                  const Calibration& done) {
  if (done.has_memory)
    std::cout << to_text(done.correction.base_memory) << " of base memory, "
              << to_text(std::round(done.correction.fragmentation * 1000) / 10)
              << " % fragmentation\n";
  else if (has_memory(runs))
    std::cout << "no correction of memory: " << kNothingBetter;
}

void print_parameters(const std::vector<MeasuredRun>& runs,
                      const Calibration& done) {
  if (done.fitted.empty())
    std::cout << "no correction of times: " << kNothingBetter;
  for (Parameter parameter : done.fitted) {
    std::cout << parameter_text(done.correction, parameter) << "\n";
    if (is_at_limit(done, parameter))
      std::cout
          << "  this is the limit of what is tried: the cause is probably "
             "another\n";
  }
  if (!done.fitted.empty() && !done.left_out.empty() &&
      median(sorted_errors(runs, done.left_out)) >=
          median(sorted_errors(runs, done.before)))
    std::cout << "left out, runs are predicted no better than before: measure "
                 "more of them, of different shape\n";
}

bool has_nothing_to_correct(const Calibration& done) {
  return done.fitted.empty() && !done.has_memory;
}

void print_calibration(const std::vector<MeasuredRun>& runs,
                       const Calibration& done, int width) {
  std::cout << errors_table(runs, done, width) << "\n";
  if (has_nothing_to_correct(done)) {
    std::cout << "nothing to correct was found: of the corrections of times"
              << (has_memory(runs) ? " and of memory " : " ") << kNothingBetter;
    return;
  }
  print_parameters(runs, done);
  print_memory(runs, done);
}

Json calibration_json(const std::vector<MeasuredRun>& runs,
                      const Calibration& done) {
  Json rows = Json::array();
  for (std::size_t run = 0; run < runs.size(); ++run) {
    Json row = Json::object();
    row.set("plan", runs[run].name);
    row.set("step_seconds", runs[run].step.value());
    const auto set = [&](const std::string& name, const Prediction& made) {
      row.set(name + "_seconds", made.step.value());
      row.set(name + "_bytes", made.memory.value());
    };
    set("before", done.before[run]);
    set("calibrated", done.after[run]);
    if (!done.left_out.empty()) set("left_out", done.left_out[run]);
    rows.push(std::move(row));
  }
  Json json = Json::object();
  json.set("runs", std::move(rows));
  json.set("layer_overhead", done.correction.layer_overhead);
  json.set("gradient_overhead_seconds",
           done.correction.gradient_overhead.value());
  json.set("action_overhead_seconds", done.correction.action_overhead.value());
  json.set("step_overhead_seconds", done.correction.step_overhead.value());
  json.set("overlap", done.correction.overlap < 0
                          ? Json()
                          : Json(done.correction.overlap));
  json.set("link_rate", done.correction.link_rate);
  json.set("base_memory_bytes", done.correction.base_memory.value());
  json.set("fragmentation", done.correction.fragmentation);
  Json limits = Json::array();
  for (Parameter parameter : done.at_limit) limits.push(name_of(parameter));
  json.set("at_limit", std::move(limits));
  if (done.num_groups > 0)
    json.set("left_out_groups", static_cast<std::int64_t>(done.num_groups));
  return json;
}

// One file is written, so there must be one cluster to correct.
Result<void> check_one_cluster(const CalibrateOptions& options,
                               const std::vector<MeasuredRun>& runs) {
  if (options.file.empty() || !options.inputs.cluster.empty()) return {};
  const MeasuredRun& first = runs.front();
  for (const MeasuredRun& run : runs)
    if (run.lowered.cluster != first.lowered.cluster)
      return bad_configuration(
          "-o: the runs are on different clusters: \"" +
              first.lowered.cluster.name() + "\" (" + first.cluster_file +
              ", of " + first.name + ") and \"" + run.lowered.cluster.name() +
              "\" (" + run.cluster_file + ", of " + run.name + ")",
          "say with --cluster which one to correct and write");
  return {};
}

Result<void> write_corrected(const CalibrateOptions& options,
                             const std::vector<MeasuredRun>& runs,
                             const Correction& correction) {
  if (options.file.empty()) return {};
  const bool is_given = !options.inputs.cluster.empty();
  PIPEWRIGHT_TRY(const Cluster cluster,
                 is_given ? load_cluster(options.inputs.cluster)
                          : Result<Cluster>(runs.front().lowered.cluster));
  PIPEWRIGHT_TRY(const Cluster better, corrected(cluster, correction));
  return write_file(options.file, to_text(better));
}

void run_calibration(const CalibrateOptions& options, Exit& exit) {
  const auto runs = measured_runs(options);
  if (!runs) return report(runs.error(), exit);
  if (const auto one = check_one_cluster(options, *runs); !one)
    return report(one.error(), exit);
  const auto progress = [](double share) { show_progress("fitting", share); };
  progress(0);
  const auto done = calibrate(*runs, progress);
  progress(1);
  if (!done) return report(done.error(), exit);
  if (auto written = write_corrected(options, *runs, done->correction);
      !written)
    return report(written.error(), exit);
  if (options.output.json)
    std::cout << calibration_json(*runs, *done).to_text();
  else
    print_calibration(*runs, *done, options.output.width);
  if (!options.file.empty())
    std::cerr
        << "wrote " << options.file
        << (has_nothing_to_correct(*done)
                ? ", the cluster as it was: nothing to correct was found\n"
                : "\n");
}

}  // namespace

void add_calibrate(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "calibrate", "Correct a cluster by steps that were measured on it");
  auto options = std::make_shared<CalibrateOptions>();
  command->add_option("PLAN_MEASURED", options->pairs,
                      "Plan files, each with its measured time per step: 812ms "
                      "or 0.812");
  command->add_option("--runs", options->runs,
                      "File of runs, each with its plan, profile, cluster, "
                      "measured step and memory");
  CLI::Option* profile = command->add_option(
      "--profile", options->inputs.profile, "Profile file with the costs");
  command
      ->add_option("--model", options->inputs.model,
                   "Model whose costs are estimated; default: the plan's")
      ->excludes(profile);
  command->add_option("--cluster", options->inputs.cluster,
                      "Cluster that the plans ran on");
  command->add_option("-o,--output", options->file,
                      "Write the corrected cluster to this file");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_calibration(*options, exit); });
}

}  // namespace pipewright::cli
