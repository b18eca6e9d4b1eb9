// Trains a planned model on data, piece by piece, and leaves a run folder:
//
//   plan.json metrics.jsonl pieces.jsonl trace.json summary.json checkpoints/
//
// Nothing here chooses a plan or knows what was predicted. No LibTorch type is
// seen from outside.

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
  // May be empty, like all. Called when the run folder is there and holds the
  // plan, before anything of the model takes memory.
  std::function<void()> on_start;
  // Called as steps are done, on any thread, one at a time.
  std::function<void(const StepReport&)> on_step;
  std::function<void(const Evaluation&)> on_evaluation;
  // Called with one line about a problem that does not end training.
  std::function<void(const std::string&)> on_warning;
  // Called often and on any thread: the signal that asks for an end, or 0. The
  // steps in progress are then finished, and the state is saved.
  std::function<int()> signal;
  // Called once, when it is known after which step that is.
  std::function<void(std::int64_t step)> on_stop;
};

// Fails before the first step with BadConfiguration (optimizer, data that does
// not fit, too few steps, a run folder that has a run), CannotCreate or
// CannotWrite (run folder, no space for a checkpoint), or as open_dataset() and
// read_checkpoint() do; later with LossNotFinite, WorkerLost, or MissingInput
// where data from another process ends early, after the last step that has
// samples was saved; or at the end with CannotWrite. The last checkpoint is
// then kept, and the hint names it;
// where the loss is not finite the weights of the last good step are saved,
// unless request.not_finite asks for something else, until 10 steps in a row
// are not finite or none was. If
// the disk fills up during training there is a warning, and training goes on.
//
// A program that does not synchronise every step drains where a piece ends: at
// every checkpoint and evaluation, and after at most 1000 steps; its last good
// step is the last at which it had drained.
Result<TrainReport> train(const Model& model, const TrainRequest& request,
                          const TrainHooks& hooks = {});

// The part of every rank but 0: runs its workers as train() of rank 0 commands,
// until it is shut down. Data that cannot be read here ends training on all
// ranks. Fails where this rank's devices cannot be opened.
Result<Outcome> follow_training(const Model& model,
                                const TrainRequest& request);

}  // namespace pipewright
