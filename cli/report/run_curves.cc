#include "cli/report/run_curves.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "pipewright/report/report_parts.h"

namespace pipewright::cli {
namespace {

constexpr std::size_t kMaxShownSteps = 4000;
constexpr std::size_t kMaxShownPieces = 1000;
constexpr std::size_t kMaxShownLines = 8;
constexpr std::size_t kMaxShownWarnings = 50;

Json number_or_null(double number) {
  return std::isfinite(number) ? Json(number) : Json();
}

Json series(const RunMetrics& metrics, double StepMetrics::*value) {
  Json json = Json::array();
  for (std::size_t i : spread_indices(metrics.steps.size(), kMaxShownSteps))
    json.push(number_or_null(metrics.steps[i].*value));
  return json;
}

Json evaluations_json(const RunMetrics& metrics) {
  Json evaluations = Json::array();
  for (std::size_t i :
       spread_indices(metrics.evaluations.size(), kMaxShownSteps)) {
    const EvaluationMetrics& line = metrics.evaluations[i];
    Json json = Json::object()
                    .set("step", line.step)
                    .set("loss", number_or_null(line.loss));
    if (line.accuracy) json.set("accuracy", *line.accuracy);
    evaluations.push(std::move(json));
  }
  return evaluations;
}

using Pieces = std::vector<const PieceMetrics*>;
using NumberOf = std::function<double(const std::vector<double>&)>;

Pieces shown_pieces(const RunMetrics& metrics) {
  Pieces pieces;
  for (std::size_t i : spread_indices(metrics.pieces.size(), kMaxShownPieces))
    pieces.push_back(&metrics.pieces[i]);
  return pieces;
}

Json line_json(const std::string& name, const Pieces& pieces,
               std::vector<double> PieceMetrics::*list,
               const NumberOf& number_of) {
  Json values = Json::array();
  for (const PieceMetrics* piece : pieces)
    values.push((piece->*list).empty()
                    ? Json()
                    : number_or_null(number_of(piece->*list)));
  return Json::object().set("name", name).set("values", std::move(values));
}

double mean_of(const std::vector<double>& list) {
  return std::accumulate(list.begin(), list.end(), 0.0) /
         static_cast<double>(list.size());
}

// "worker 0", "worker 1", ...; or the lowest, the mean and the highest.
Json lines_json(const std::string& what, const Pieces& pieces,
                std::vector<double> PieceMetrics::*list) {
  std::size_t count = 0;
  for (const PieceMetrics* piece : pieces)
    count = std::max(count, (piece->*list).size());
  Json lines = Json::array();
  if (count <= kMaxShownLines) {
    for (std::size_t i = 0; i < count; ++i)
      lines.push(line_json(what + " " + std::to_string(i), pieces, list,
                           [i](const std::vector<double>& numbers) {
                             return i < numbers.size() ? numbers[i] : NAN;
                           }));
    return lines;
  }
  const auto lowest = [](const std::vector<double>& numbers) {
    return *std::min_element(numbers.begin(), numbers.end());
  };
  const auto highest = [](const std::vector<double>& numbers) {
    return *std::max_element(numbers.begin(), numbers.end());
  };
  lines.push(line_json("highest", pieces, list, highest));
  lines.push(line_json("mean", pieces, list, mean_of));
  lines.push(line_json("lowest", pieces, list, lowest));
  return lines;
}

}  // namespace

Json curves_json(const RunMetrics& metrics) {
  Json steps = Json::array();
  for (std::size_t i : spread_indices(metrics.steps.size(), kMaxShownSteps))
    steps.push(metrics.steps[i].step);
  Json json = Json::object();
  json.set("num_steps", metrics.steps.size());
  json.set("steps", std::move(steps));
  json.set("loss", series(metrics, &StepMetrics::loss));
  json.set("rate", series(metrics, &StepMetrics::rate));
  json.set("samples_per_second", series(metrics, &StepMetrics::samples));
  json.set("bubble", series(metrics, &StepMetrics::bubble));
  json.set("evaluations", evaluations_json(metrics));
  return json;
}

Json pieces_json(const RunMetrics& metrics) {
  const Pieces pieces = shown_pieces(metrics);
  Json steps = Json::array();
  for (const PieceMetrics* piece : pieces) steps.push(piece->step);
  Json json = Json::object();
  json.set("steps", std::move(steps));
  json.set("busy", lines_json("worker", pieces, &PieceMetrics::busy));
  json.set("memory", lines_json("worker", pieces, &PieceMetrics::memory));
  json.set("rates", lines_json("stage", pieces, &PieceMetrics::rates));
  return json;
}

Json workers_json(const RunMetrics& metrics) {
  Json workers = Json::array();
  if (metrics.pieces.empty()) return workers;
  const PieceMetrics& last = metrics.pieces.back();
  for (std::size_t w = 0; w < std::min(last.busy.size(), last.memory.size());
       ++w)
    workers.push(Json::object()
                     .set("worker", w)
                     .set("busy", number_or_null(last.busy[w]))
                     .set("memory_bytes", number_or_null(last.memory[w])));
  return workers;
}

Json stages_json(const RunMetrics& metrics) {
  Json stages = Json::array();
  if (metrics.pieces.empty()) return stages;
  const PieceMetrics& last = metrics.pieces.back();
  for (std::size_t s = 0;
       s < std::min(last.rates.size(), last.staleness.size()); ++s)
    stages.push(Json::object()
                    .set("stage", s)
                    .set("rate", number_or_null(last.rates[s]))
                    .set("staleness", number_or_null(last.staleness[s])));
  return stages;
}

Json warnings_json(const RunMetrics& metrics) {
  Json json = Json::array();
  const auto& warnings = metrics.warnings;
  const std::size_t first =
      warnings.size() - std::min(warnings.size(), kMaxShownWarnings);
  for (std::size_t i = first; i < warnings.size(); ++i)
    json.push(Json::object()
                  .set("step", warnings[i].step)
                  .set("text", warnings[i].text));
  return json;
}

Seconds median_step(const RunMetrics& metrics) {
  std::vector<double> seconds;
  for (const StepMetrics& line : metrics.steps)
    if (line.seconds > 0) seconds.push_back(line.seconds);
  if (seconds.empty()) return {};
  std::sort(seconds.begin(), seconds.end());
  return Seconds(seconds[seconds.size() / 2]);
}

}  // namespace pipewright::cli
