// The files of a run, except its checkpoints; see trainer.h.

#pragma once

#include <filesystem>
#include <fstream>
#include <memory>

#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/runtime/checkpoint/run_lease.h"
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

  // Drops the lines of metrics.jsonl after this step: they are trained again.
  Result<void> go_back_to(std::int64_t step);

  // Adds a line to metrics.jsonl: the whole line or, with CannotWrite, nothing.
  Result<void> add(const StepReport& step);
  Result<void> add(const Evaluation& evaluation);
  // trace.json and summary.json.
  Result<void> finish(const Program& program, const TrainReport& report) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  Result<void> add_line(const Json& line);

  std::filesystem::path path_;
  std::unique_ptr<RunLease> lease_;
  std::ofstream metrics_;
  std::uintmax_t metrics_size_ = 0;  // of whole lines
};

}  // namespace pipewright
