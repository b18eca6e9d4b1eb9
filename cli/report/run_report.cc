#include "cli/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "cli/command.h"
#include "cli/report/trace_file.h"
#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/plan.h"
#include "pipewright/report/plan_report.h"
#include "pipewright/report/report_parts.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxShownSteps = 4000;
constexpr std::size_t kMaxDifferences = 8;

struct MetricsLine {
  std::int64_t step = 0;
  double loss = 0, rate = 0, seconds = 0, samples = 0, bubble = 0;
};

struct EvaluationLine {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> accuracy;
};

struct Metrics {
  std::vector<MetricsLine> steps;
  std::vector<EvaluationLine> evaluations;
};

// NaN for null: a loss that is not finite.
double real_or_nan(JsonCursor value) {
  return value.exists() && value.is_number()
             ? value.real()
             : std::numeric_limits<double>::quiet_NaN();
}

Json number_or_null(double number) {
  return std::isfinite(number) ? Json(number) : Json();
}

void read_line(JsonCursor& root, Metrics& metrics) {
  const std::int64_t step = root.at("step").integer(0);
  if (JsonCursor evaluation = root.find("evaluation"); evaluation.exists()) {
    EvaluationLine line{step, real_or_nan(evaluation.at("loss")), {}};
    if (JsonCursor accuracy = evaluation.find("accuracy"); accuracy.exists())
      line.accuracy = real_or_nan(accuracy);
    metrics.evaluations.push_back(line);
    return;
  }
  metrics.steps.push_back({step, real_or_nan(root.find("loss")),
                           real_or_nan(root.find("rate")),
                           real_or_nan(root.find("step_seconds")),
                           real_or_nan(root.find("samples_per_second")),
                           real_or_nan(root.find("bubble"))});
}

Result<Metrics> parse_metrics(const std::string& text,
                              const std::string& file) {
  Metrics metrics;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    const auto read = read_json(line, file + ":" + std::to_string(number),
                                [&](JsonCursor& root) {
                                  read_line(root, metrics);
                                  return true;
                                });
    if (!read) return read.error();
  }
  return metrics;
}

Json series(const Metrics& metrics, double MetricsLine::*value) {
  Json json = Json::array();
  for (std::size_t i : spread_indices(metrics.steps.size(), kMaxShownSteps))
    json.push(number_or_null(metrics.steps[i].*value));
  return json;
}

Json curves_json(const Metrics& metrics) {
  Json steps = Json::array(), evaluations = Json::array();
  for (std::size_t i : spread_indices(metrics.steps.size(), kMaxShownSteps))
    steps.push(metrics.steps[i].step);
  for (std::size_t i :
       spread_indices(metrics.evaluations.size(), kMaxShownSteps)) {
    const EvaluationLine& line = metrics.evaluations[i];
    Json json = Json::object()
                    .set("step", line.step)
                    .set("loss", number_or_null(line.loss));
    if (line.accuracy) json.set("accuracy", *line.accuracy);
    evaluations.push(std::move(json));
  }
  Json json = Json::object();
  json.set("num_steps", metrics.steps.size());
  json.set("steps", std::move(steps));
  json.set("loss", series(metrics, &MetricsLine::loss));
  json.set("rate", series(metrics, &MetricsLine::rate));
  json.set("samples_per_second", series(metrics, &MetricsLine::samples));
  json.set("bubble", series(metrics, &MetricsLine::bubble));
  json.set("evaluations", std::move(evaluations));
  return json;
}

Seconds median_step(const Metrics& metrics) {
  std::vector<double> seconds;
  for (const MetricsLine& line : metrics.steps)
    if (line.seconds > 0) seconds.push_back(line.seconds);
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return Seconds(seconds[seconds.size() / 2]);
}

std::optional<TracedStep> traced_step(const fs::path& file, const Plan& plan) {
  if (!fs::exists(file)) return {};
  const auto text = read_file(file);
  if (!text) return {};
  const auto trace = parse_trace(*text, file.string());
  if (!trace) {
    say("pipewright: not shown: " + trace.error().to_text());
    return {};
  }
  if (trace->num_workers > plan.num_workers()) return {};
  return last_step(*trace, plan.num_microbatches());
}

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

std::string training_sentence(const Metrics& metrics) {
  if (metrics.steps.empty()) return "No step is done yet.";
  const auto& first = metrics.steps.front();
  const auto& last = metrics.steps.back();
  std::string text = "Steps " + with_thousands(first.step) + " to " +
                     with_thousands(last.step) + ": the loss went from " +
                     to_text(first.loss, 4) + " to " + to_text(last.loss, 4);
  if (!metrics.evaluations.empty()) {
    const EvaluationLine& held_out = metrics.evaluations.back();
    text += "; held out: loss " + to_text(held_out.loss, 4);
    if (held_out.accuracy)
      text += ", accuracy " + share_text(*held_out.accuracy);
  }
  return text + ".";
}

std::string prediction_sentence(const std::optional<TracedStep>& predicted,
                                Seconds measured) {
  if (measured <= Seconds(0)) return "No step was measured.";
  const std::string took =
      "A step took " + to_text(measured) + " in the median";
  if (!predicted)
    return took + ". The folder has no prediction to compare with.";
  const double error = predicted->step / measured - 1;
  return took + "; " + to_text(predicted->step) +
         " were predicted: " + share_text(std::abs(error)) +
         (error < 0 ? " too little." : " too much.");
}

std::string plan_text(const Plan& plan) {
  return plan.model + " in " + std::to_string(plan.num_stages()) +
         " stages on " + std::to_string(plan.num_workers()) +
         " workers: method " + to_text(plan.method) + ", schedule " +
         (plan.schedule_name.empty() ? "written by hand" : plan.schedule_name) +
         ", " + std::to_string(plan.num_microbatches()) + " x " +
         std::to_string(plan.microbatch) + " samples.";
}

}  // namespace

bool is_run_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

Result<Json> run_report(const fs::path& folder) {
  const fs::path plan_file = folder / "plan.json",
                 metrics_file = folder / "metrics.jsonl";
  PIPEWRIGHT_TRY(const std::string plan_json, read_file(plan_file));
  PIPEWRIGHT_TRY(const Plan plan, parse_plan(plan_json, plan_file.string()));
  PIPEWRIGHT_TRY(const std::string lines, read_file(metrics_file));
  PIPEWRIGHT_TRY(const Metrics metrics,
                 parse_metrics(lines, metrics_file.string()));
  const auto measured = traced_step(folder / "trace.json", plan);
  const auto predicted = traced_step(folder / "predicted.json", plan);
  const Seconds median = median_step(metrics);
  const int workers = plan.num_workers(),
            microbatches = plan.num_microbatches();
  Json summary = Json::array();
  summary.push(sentence_json("plan", "The plan", plan_text(plan)));
  summary.push(
      sentence_json("training", "Training", training_sentence(metrics)));
  summary.push(sentence_json("prediction", "As predicted?",
                             prediction_sentence(predicted, median)));
  Json run = Json::object();
  run.set("folder", folder.string());
  run.set("minibatch", plan.minibatch);
  run.set("step_seconds", median.value());
  if (predicted) run.set("predicted_seconds", predicted->step.value());
  run.set("summary", std::move(summary));
  run.set("curves", curves_json(metrics));
  if (measured)
    run.set("measured", timeline_json(*measured, workers, microbatches));
  if (predicted)
    run.set("predicted", timeline_json(*predicted, workers, microbatches));
  if (measured && predicted)
    run.set("differences",
            differences_json(differences(*predicted, *measured)));
  Json json = report_of("Run of " + plan.model, {});
  json.set("run", std::move(run));
  return json;
}

}  // namespace pipewright::cli
