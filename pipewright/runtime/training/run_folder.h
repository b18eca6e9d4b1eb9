// The files of a run, except its checkpoints; see trainer.h.

#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/runtime/checkpoint/run_lease.h"
#include "pipewright/runtime/training/line_file.h"
#include "pipewright/runtime/training/train_report.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

class RunFolder {
 public:
  // Creates the folder, takes its lease and writes plan.json, so that a folder
  // that cannot be written, or a disk that is too full for a checkpoint, is
  // found before the first step. Fails with CannotCreate or CannotWrite, with
  // InUse if another process trains into it, or with BadConfiguration if the
  // folder has a run that is not to be resumed.
  static Result<RunFolder> open(const TrainRequest& request, Bytes checkpoint,
                                LeaseOptions lease);

  // Fails with WorkerLost if another process has taken the folder over.
  Result<void> check_lease() const { return lease_->check(); }

  // Drops what was written about later steps: they are trained again.
  Result<void> go_back_to(std::int64_t step);

  // Adds a line to metrics.jsonl: the whole line or, with CannotWrite, nothing.
  Result<void> add(const StepReport& step);
  Result<void> add(const Evaluation& evaluation);
  Result<void> add_skipped(std::int64_t step);
  // For those who watch the run: a line of pieces.jsonl, and trace.json if
  // writing it takes less than half a percent of the run's time. What cannot be
  // written is left out.
  void add(const PieceReport& piece, const Program& program,
           const Timeline& timeline);
  void add_warning(std::int64_t step, const std::string& text);
  // trace.json and summary.json.
  Result<void> finish(const Program& program, const TrainReport& report) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  using Clock = std::chrono::steady_clock;
  RunFolder(LineFile metrics, LineFile pieces)
      : metrics_(std::move(metrics)), pieces_(std::move(pieces)) {}

  std::filesystem::path path_;
  std::unique_ptr<RunLease> lease_;
  LineFile metrics_, pieces_;
  Clock::time_point next_trace_;  // no sooner
};

}  // namespace pipewright
