#include "cli/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "cli/command.h"
#include "cli/report/reported_plan.h"
#include "cli/report/run_curves.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/report/plan_report.h"
#include "pipewright/report/report_parts.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDifferences = 8;
constexpr double kClose = 0.05, kNearly = 0.15;  // errors of a prediction

struct Difference {
  TraceSpan predicted, measured;
  double seconds() const {
    return ((measured.end - measured.start) - (predicted.end - predicted.start))
        .value();
  }
};

// The actions whose measured time is farthest from the predicted one.
std::vector<Difference> differences(const TracedStep& predicted,
                                    const TracedStep& measured) {
  using Key = std::tuple<WorkerId, char, StageId, int>;
  const auto key = [](const TraceSpan& span) {
    return Key{span.worker, span.kind, span.stage,
               span.kind == 'S' ? 0 : span.microbatch};
  };
  std::map<Key, TraceSpan> expected;
  for (const TraceSpan& span : predicted.spans)
    if (span.kind != '>' && span.kind != 'A') expected[key(span)] = span;
  std::vector<Difference> list;
  for (const TraceSpan& span : measured.spans)
    if (auto found = expected.find(key(span)); found != expected.end())
      list.push_back({found->second, span});
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return std::abs(a.seconds()) > std::abs(b.seconds());
  });
  if (list.size() > kMaxDifferences) list.resize(kMaxDifferences);
  return list;
}

Json differences_json(const std::vector<Difference>& list) {
  Json json = Json::array();
  for (const Difference& each : list)
    json.push(Json::object()
                  .set("worker", each.measured.worker.value)
                  .set("kind", std::string(1, each.measured.kind))
                  .set("stage", each.measured.stage.value)
                  .set("microbatch", each.measured.microbatch)
                  .set("predicted_seconds",
                       (each.predicted.end - each.predicted.start).value())
                  .set("measured_seconds",
                       (each.measured.end - each.measured.start).value()));
  return json;
}

std::string training_sentence(const RunMetrics& metrics) {
  if (metrics.steps.empty()) return "No step is done yet.";
  const auto& first = metrics.steps.front();
  const auto& last = metrics.steps.back();
  std::string text = "Steps " + with_thousands(first.step) + " to " +
                     with_thousands(last.step) + ": the loss went from " +
                     to_text(first.loss, 4) + " to " + to_text(last.loss, 4);
  if (!metrics.evaluations.empty()) {
    const EvaluationMetrics& held_out = metrics.evaluations.back();
    text += "; held out: loss " + to_text(held_out.loss, 4);
    if (held_out.accuracy)
      text += ", accuracy " + share_text(*held_out.accuracy);
  }
  return text + ".";
}

std::string prediction_sentence(const std::optional<TracedStep>& predicted,
                                Seconds measured) {
  if (measured <= Seconds(0)) return "No step was measured.";
  const std::string took = " step took " + to_text(measured) + " in the median";
  if (!predicted)
    return "A" + took + ". The folder has no prediction to compare with.";
  const double error = predicted->step / measured - 1, size = std::abs(error);
  const std::string verdict = size <= kClose    ? "Yes: a"
                              : size <= kNearly ? "Nearly: a"
                                                : "No: a";
  return verdict + took + "; " + to_text(predicted->step) +
         " were predicted, " + share_text(size) +
         (error < 0 ? " too low." : " too high.");
}

// Of the worker that held most. Empty where either is not known.
std::string memory_sentence(const std::vector<Bytes>& predicted,
                            const RunMetrics& metrics) {
  if (metrics.pieces.empty()) return "";
  const std::vector<double>& measured = metrics.pieces.back().memory;
  const auto fullest = std::max_element(measured.begin(), measured.end());
  const auto w = static_cast<std::size_t>(fullest - measured.begin());
  if (w >= std::min(measured.size(), predicted.size()) || !(*fullest > 0))
    return "";
  return " The fullest worker, " + std::to_string(w) + ", held " +
         to_text(Bytes(static_cast<std::int64_t>(*fullest))) + "; " +
         to_text(predicted[w]) + " were predicted.";
}

std::string plan_text(const Plan& plan) {
  return plan.model + " in " + stage_count_text(plan) + " on " +
         counted(plan.num_workers(), "worker") + ": method " +
         to_text(plan.method) + ", schedule " + schedule_text(plan) + ", " +
         std::to_string(plan.num_microbatches()) + " x " +
         std::to_string(plan.microbatch) + " samples" + planned_by(plan) + ".";
}

std::optional<Json> sentence_about(std::string_view about, const Json& plan) {
  for (const Json& said : *plan.find("summary")->if_array())
    if (*said.find("about")->if_string() == about) return said;
  return {};
}

fs::file_time_type written_at(const fs::path& file) {
  std::error_code failed;
  const auto time = fs::last_write_time(file, failed);
  return failed ? fs::file_time_type{} : time;
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

RunReader::RunReader(fs::path folder)
    : folder_(std::move(folder)), metrics_(folder_) {}

// A trace that cannot be read is not shown.
bool RunReader::read_trace(const char* file, ReadTrace& trace) {
  const fs::path path = folder_ / file;
  const auto written = written_at(path);
  if (written == trace.written) return false;
  trace = {written, {}, {}};
  const auto text = read_file(path);
  if (!text) return true;
  const auto parsed = parse_trace(*text, path.string());
  if (!parsed)
    say("pipewright: not shown: " + parsed.error().to_text());
  else if (parsed->num_workers <= plan_->num_workers())
    trace = {written, last_step(*parsed, plan_->num_microbatches()),
             parsed->memory_peaks};
  return true;
}

PlanInputs RunReader::inputs() const {
  return {(folder_ / "profile.json").string(), "",
          (folder_ / "cluster.json").string()};
}

// What bounds the plan, by the costs of its prediction. Folders of older
// versions have none.
bool RunReader::read_costs() {
  const auto written =
      std::max(written_at(inputs().profile), written_at(inputs().cluster));
  if (written == costs_written_) return false;
  costs_written_ = written;
  bottleneck_.reset();
  const auto lowered = load_lowered((folder_ / "plan.json").string(), inputs());
  if (!lowered) return true;
  const Problem problem = problem_of(*lowered);
  if (const auto simulated = simulated_plan(lowered->plan, problem))
    bottleneck_ = bottleneck_sentence(*simulated);
  return true;
}

Result<Json> RunReader::plan_report() const {
  return reported_plan((folder_ / "plan.json").string(), inputs());
}

Result<std::int64_t> RunReader::read() {
  const fs::path plan_file = folder_ / "plan.json";
  bool is_new = false;
  if (const auto written = written_at(plan_file);
      !plan_ || written != plan_written_) {
    PIPEWRIGHT_TRY(const std::string text, read_file(plan_file));
    PIPEWRIGHT_TRY(plan_, parse_plan(text, plan_file.string()));
    plan_written_ = written;
    is_new = true;
  }
  PIPEWRIGHT_TRY(const bool has_lines, metrics_.read());
  is_new |= has_lines;
  is_new |= read_trace("trace.json", measured_);
  is_new |= read_trace("predicted.json", predicted_);
  is_new |= read_costs();
  const auto& steps = metrics().steps;
  RunState state = run_state(folder_, steps.empty() ? 0 : steps.back().step);
  is_new |= state != state_;
  state_ = std::move(state);
  return version_ += is_new ? 1 : 0;
}

Json RunReader::run(const std::optional<Json>& why) const {
  const Seconds median = median_step(metrics());
  const int workers = plan_->num_workers(),
            microbatches = plan_->num_microbatches();
  const auto& [measured, predicted] = std::tie(measured_.step, predicted_.step);
  Json summary = Json::array();
  summary.push(sentence_json("state", "State", state_.text));
  summary.push(sentence_json("plan", "The plan", plan_text(*plan_)));
  if (why) summary.push(*why);
  if (bottleneck_) summary.push(*bottleneck_);
  summary.push(
      sentence_json("training", "Training", training_sentence(metrics())));
  summary.push(
      sentence_json("prediction", "As predicted?",
                    prediction_sentence(predicted, median) +
                        memory_sentence(predicted_.memory_peaks, metrics())));
  Json run = Json::object();
  run.set("folder", folder_.string());
  run.set("state", phase_name(state_.phase));
  run.set("minibatch", plan_->minibatch);
  run.set("has_costs", bottleneck_.has_value());
  if (!metrics().pieces.empty())
    run.set("steps", metrics().pieces.back().steps);
  run.set("step_seconds", median.value());
  if (predicted) run.set("predicted_seconds", predicted->step.value());
  run.set("summary", std::move(summary));
  run.set("curves", curves_json(metrics()));
  run.set("pieces", pieces_json(metrics()));
  run.set("workers", workers_json(metrics()));
  run.set("stages", stages_json(metrics()));
  run.set("warnings", warnings_json(metrics()));
  if (measured)
    run.set("measured", timeline_json(*measured, workers, microbatches));
  if (predicted)
    run.set("predicted", timeline_json(*predicted, workers, microbatches));
  if (measured && predicted)
    run.set("differences",
            differences_json(differences(*predicted, *measured)));
  return run;
}

Result<Json> run_report(const fs::path& folder) {
  RunReader reader(folder);
  if (auto read = reader.read(); !read) return read.error();
  const auto report = reader.plan_report();
  Json::Array plans;
  if (report) plans = *report->find("plans")->if_array();
  const auto why =
      plans.empty() ? std::nullopt : sentence_about("why", plans.front());
  Json json = report_of("Run of " + reader.plan().model, std::move(plans));
  json.set("run", reader.run(why));
  return json;
}

}  // namespace pipewright::cli
