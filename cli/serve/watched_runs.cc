#include "cli/serve/watched_runs.h"

#include <cmath>
#include <map>

#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

// Inside the quotes of a label.
std::string label_text(const std::string& text) {
  std::string escaped;
  for (char c : printable(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c == '\n' ? ' ' : c;
  }
  return escaped;
}

// The format wants all values of a name together.
class PrometheusText {
 public:
  void add(const char* name, const char* help, const std::string& labels,
           double value) {
    std::string& lines = lines_[name];
    if (lines.empty())
      lines = std::string("# HELP ") + name + " " + help + "\n# TYPE " + name +
              " gauge\n";
    lines += std::string(name) + "{" + labels + "} " +
             (std::isfinite(value) ? to_text(value, 17)
              : std::isnan(value)  ? "NaN"
              : value > 0          ? "+Inf"
                                   : "-Inf") +
             "\n";
  }

  std::string text() const {
    std::string all;
    for (const auto& [name, lines] : lines_) all += lines;
    return all;
  }

 private:
  std::map<std::string, std::string> lines_;
};

void add_steps(const RunReader& run, const std::string& label,
               PrometheusText& text) {
  const RunMetrics& metrics = run.metrics();
  text.add("pipewright_running", "1 while the run goes on", label,
           run.state().phase == RunPhase::Running ? 1 : 0);
  text.add("pipewright_warnings", "warnings and errors so far", label,
           static_cast<double>(metrics.warnings.size()));
  if (metrics.steps.empty()) return;
  const StepMetrics& last = metrics.steps.back();
  text.add("pipewright_step", "optimizer steps done", label,
           static_cast<double>(last.step));
  text.add("pipewright_loss", "of the last step", label, last.loss);
  text.add("pipewright_learning_rate", "of the last step", label, last.rate);
  text.add("pipewright_step_seconds", "of the last step", label, last.seconds);
  text.add("pipewright_samples_per_second", "of the last step", label,
           last.samples);
  text.add("pipewright_bubble", "share of worker time not computing", label,
           last.bubble);
  if (metrics.evaluations.empty()) return;
  const EvaluationMetrics& held_out = metrics.evaluations.back();
  text.add("pipewright_held_out_loss", "of the last evaluation", label,
           held_out.loss);
  if (held_out.accuracy)
    text.add("pipewright_held_out_accuracy", "of the last evaluation", label,
             *held_out.accuracy);
}

void add_piece(const PieceMetrics& piece, const std::string& label,
               PrometheusText& text) {
  const auto add = [&](const char* name, const char* help, const char* key,
                       const std::vector<double>& list) {
    for (std::size_t i = 0; i < list.size(); ++i)
      text.add(name, help, label + "," + key + "=\"" + std::to_string(i) + "\"",
               list[i]);
  };
  add("pipewright_worker_busy", "share of the time, computing", "worker",
      piece.busy);
  add("pipewright_worker_memory_bytes", "peak in the last piece", "worker",
      piece.memory);
  add("pipewright_stage_learning_rate", "of the next step", "stage",
      piece.rates);
  add("pipewright_stage_staleness", "steps, of a forward's weights", "stage",
      piece.staleness);
}

}  // namespace

WatchedRuns::WatchedRuns(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders)
    runs_.push_back(std::make_unique<Watched>(folder));
}

Json WatchedRuns::names() const {
  Json names = Json::array();
  for (const auto& run : runs_) names.push(run->reader.folder().string());
  return names;
}

Result<WatchedRuns::Watched*> WatchedRuns::watched(std::size_t number) const {
  if (number < runs_.size()) return runs_[number].get();
  return Error{ErrorCode::MissingInput,
               "there is no run " + std::to_string(number),
               {},
               "runs are named on the command line of serve",
               {}};
}

Result<Json> WatchedRuns::run(std::size_t number, std::int64_t seen) {
  PIPEWRIGHT_TRY(Watched* const run, watched(number));
  const std::lock_guard lock(run->mutex);
  PIPEWRIGHT_TRY(const std::int64_t version, run->reader.read());
  Json json = Json::object();
  json.set("version", version);
  if (version != seen) json.set("run", run->reader.run());
  return json;
}

Result<Json> WatchedRuns::plan(std::size_t number) {
  PIPEWRIGHT_TRY(Watched* const run, watched(number));
  const std::lock_guard lock(run->plan_mutex);
  return run->reader.plan_report();
}

std::string WatchedRuns::metrics() {
  PrometheusText text;
  for (const auto& watched : runs_) {
    const std::lock_guard lock(watched->mutex);
    if (!watched->reader.read()) continue;
    const std::string label =
        "run=\"" + label_text(watched->reader.folder().string()) + "\"";
    add_steps(watched->reader, label, text);
    if (const auto& pieces = watched->reader.metrics().pieces; !pieces.empty())
      add_piece(pieces.back(), label, text);
  }
  return text.text();
}

}  // namespace pipewright::cli
