// Trains a planned model on data, piece by piece, and leaves a run folder:
//
//   plan.json  metrics.jsonl  trace.json  summary.json  checkpoints/
//
// Which plan is good and what it promised is not known here; no LibTorch type
// is seen from outside.

#pragma once

#include <functional>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/ranks/outcome.h"
#include "pipewright/runtime/training/evaluation.h"
#include "pipewright/runtime/training/train_report.h"
#include "pipewright/runtime/training/train_request.h"

namespace pipewright {

struct TrainHooks {
  std::function<void(const StepReport&)> on_step;  // may be empty, as others
  std::function<void(const Evaluation&)> on_evaluation;
  // What went wrong and does not end training, in a line.
  std::function<void(const std::string&)> on_warning;
  // Asked between pieces: a signal to end after, or 0.
  std::function<int()> signal;
};

// Fails before the first step with BadConfiguration (optimizer, data that does
// not fit, too few steps, a run folder that has a run), CannotCreate or
// CannotWrite (run folder, no room for a checkpoint), or as open_dataset() and
// read_checkpoint() do; later with LossNotFinite or WorkerLost, or at the end
// with CannotWrite. The last checkpoint is then still there, and the hint names
// it; where the loss is not finite the weights of the last good step are saved.
// A disk that fills up on the way is warned of, and training goes on.
//
// A program that does not synchronise every step drains where a piece ends: at
// every checkpoint and evaluation, and after at most 1000 steps; its last good
// step is the last at which it had drained.
Result<TrainReport> train(const Model& model, const TrainRequest& request,
                          const TrainHooks& hooks = {});

// The part of a process that does not lead: runs its workers as the leader's
// train() says, until that dismisses it. Data that cannot be read here ends
// training everywhere.
Outcome follow_training(const Model& model, const TrainRequest& request);

}  // namespace pipewright
