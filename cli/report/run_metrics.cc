#include "cli/report/run_metrics.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

// At once: the rest is read by the next call.
constexpr std::uintmax_t kMaxNewBytes = 64 << 20;

// NaN for null: a loss that is not finite.
double real_or_nan(JsonCursor value) {
  return value.exists() && value.is_number()
             ? value.real()
             : std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> reals(JsonCursor list) {
  std::vector<double> numbers;
  for (const JsonCursor& element : list.elements())
    numbers.push_back(real_or_nan(element));
  return numbers;
}

void read_metrics_line(JsonCursor& root, RunMetrics& metrics) {
  const std::int64_t step = root.at("step").integer(0);
  if (JsonCursor evaluation = root.find("evaluation"); evaluation.exists()) {
    EvaluationMetrics line{step, real_or_nan(evaluation.at("loss")), {}};
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

void read_pieces_line(JsonCursor& root, RunMetrics& metrics) {
  const std::int64_t step = root.at("step").integer(0);
  if (JsonCursor warning = root.find("warning"); warning.exists())
    metrics.warnings.push_back({step, warning.text()});
  else
    metrics.pieces.push_back(
        {step, root.at("steps").integer(0), reals(root.at("busy")),
         reals(root.at("memory_bytes")), reals(root.at("rates")),
         reals(root.at("staleness"))});
}

Result<std::uintmax_t> size_of(const fs::path& file) {
  std::error_code failed;
  const std::uintmax_t size = fs::file_size(file, failed);
  if (!failed) return size;
  return Error{ErrorCode::MissingInput,
               failed.message(),
               file.string(),
               "is this the folder of a run?",
               {}};
}

// Up to the end of the last whole line.
std::string whole_lines(const fs::path& file, std::uintmax_t from,
                        std::uintmax_t to) {
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(from));
  std::string text(static_cast<std::size_t>(std::min(to - from, kMaxNewBytes)),
                   '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(
      static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  const std::size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  return text;
}

}  // namespace

Result<bool> LineReader::read() {
  PIPEWRIGHT_TRY(const std::uintmax_t size, size_of(file_));
  std::string text;
  if (size >= read_bytes_)
    text = whole_lines(file_, read_bytes_ - last_line_.size(), size);
  const bool starts_anew = size < read_bytes_ || !text.starts_with(last_line_);
  if (starts_anew) {
    forget();
    text = whole_lines(file_, 0, size);
  } else {
    text.erase(0, last_line_.size());
  }
  if (text.empty()) return starts_anew;
  read_bytes_ += text.size();
  text.pop_back();
  for (std::string_view line : split(text, '\n')) {
    last_line_ = std::string(line) + "\n";
    const std::string where =
        file_.string() + ":" + std::to_string(++num_lines_);
    if (trim(line).empty()) continue;
    const auto read = read_json(line, where, [&](JsonCursor& root) {
      reader_(root);
      return true;
    });
    if (!read) {
      forget();  // so that the next call fails, too, if nothing is changed
      return read.error();
    }
  }
  return true;
}

void LineReader::forget() {
  start_anew_();
  read_bytes_ = 0;
  last_line_.clear();
  num_lines_ = 0;
}

RunMetricsReader::RunMetricsReader(const fs::path& folder)
    : pieces_file_(folder / "pieces.jsonl"),
      steps_(
          folder / "metrics.jsonl",
          [this] {
            metrics_.steps.clear();
            metrics_.evaluations.clear();
          },
          [this](JsonCursor& line) { read_metrics_line(line, metrics_); }),
      pieces_(
          pieces_file_,
          [this] {
            metrics_.pieces.clear();
            metrics_.warnings.clear();
          },
          [this](JsonCursor& line) { read_pieces_line(line, metrics_); }) {}

Result<bool> RunMetricsReader::read() {
  PIPEWRIGHT_TRY(const bool has_steps, steps_.read());
  std::error_code ignored;
  if (!fs::exists(pieces_file_, ignored)) return has_steps;
  PIPEWRIGHT_TRY(const bool has_pieces, pieces_.read());
  return has_steps || has_pieces;
}

}  // namespace pipewright::cli
