// What a run folder has of each step, evaluation and piece of training, read
// while the run goes on: every call reads only what is new.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/result.h"

namespace pipewright::cli {

struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0, rate = 0, seconds = 0, samples = 0, bubble = 0;
};

struct EvaluationMetrics {
  std::int64_t step = 0;
  double loss = 0;
  std::optional<double> accuracy;
};

struct PieceMetrics {
  std::int64_t step = 0, steps = 0;      // done, of
  std::vector<double> busy, memory;      // per worker
  std::vector<double> rates, staleness;  // per stage
};

struct RunWarning {
  std::int64_t step = 0;
  std::string text;
};

struct RunMetrics {
  std::vector<StepMetrics> steps;
  std::vector<EvaluationMetrics> evaluations;
  std::vector<PieceMetrics> pieces;
  std::vector<RunWarning> warnings;
};

// A file of lines that grows, and may become shorter when a run goes back.
class LineReader {
 public:
  using Reader = std::function<void(JsonCursor& line)>;
  LineReader(std::filesystem::path file, std::function<void()> start_anew,
             Reader reader)
      : file_(std::move(file)),
        start_anew_(std::move(start_anew)),
        reader_(std::move(reader)) {}

  // Reads whole lines that are new; all of them if the last line is no longer
  // where it was. Whether there was anything new. Fails with MissingInput or
  // MalformedInput.
  Result<bool> read();

 private:
  void forget();

  std::filesystem::path file_;
  std::function<void()> start_anew_;
  Reader reader_;
  std::uintmax_t read_bytes_ = 0;
  std::string last_line_;  // with its end
  int num_lines_ = 0;
};

// metrics.jsonl and pieces.jsonl of a run folder.
class RunMetricsReader {
 public:
  explicit RunMetricsReader(const std::filesystem::path& folder);
  RunMetricsReader(const RunMetricsReader&) = delete;
  RunMetricsReader& operator=(const RunMetricsReader&) = delete;

  // As LineReader::read(). Folders of older versions have no pieces.
  Result<bool> read();
  const RunMetrics& metrics() const { return metrics_; }

 private:
  RunMetrics metrics_;
  std::filesystem::path pieces_file_;
  LineReader steps_, pieces_;
};

}  // namespace pipewright::cli
