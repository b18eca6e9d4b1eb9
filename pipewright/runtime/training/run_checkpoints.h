// The checkpoints of one run: from which step it continues, up to which step it
// is saved, and what errors and warnings say about that. Their files are
// described in checkpoint.h, the other files of a run in run_folder.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"
#include "pipewright/runtime/optimizers/optimizer.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

// About what a checkpoint takes on disk.
Bytes checkpoint_bytes(const Model& model, const Optimizer& optimizer);

class RunCheckpoints {
 public:
  // The arguments must outlive this object.
  RunCheckpoints(const Model& model, const TrainRequest& request);

  // The newest that is undamaged; `skipped` gets an error for each newer one.
  // Fails as read_checkpoint() does.
  Result<TrainingState> resume(std::vector<Error>& skipped);
  // Returns the folder written. Fails as write_checkpoint() does.
  Result<std::filesystem::path> write(const TrainingState& state);

  std::int64_t saved() const { return saved_; }  // up to that step
  std::int64_t tried() const { return tried_; }  // the last write, or saved()

  // The warning if that step could not be saved.
  std::string not_saved_text(std::int64_t step, const Error& error) const;
  // The error that ends training; its hint also says what is kept.
  Error with_hint(Error error) const;

 private:
  const Model& model_;
  const std::filesystem::path& run_;
  const CheckpointOrigin origin_;
  std::int64_t saved_ = 0, tried_ = 0;
};

}  // namespace pipewright
