// Trains a planned model on data, piece by piece, and leaves a run folder:
//
//   plan.json  metrics.jsonl  trace.json  summary.json  checkpoints/
//
// Which plan is good and what it promised is not known here; no LibTorch type
// is seen from outside.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/optimizers/optimizer_choice.h"
#include "pipewright/runtime/ranks/last_word.h"
#include "pipewright/runtime/training/evaluation.h"
#include "pipewright/runtime/training/learning_rate.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

// How weights move, beyond what the program says.
struct MethodSettings {
  // PipeMare's T1: steps until a delayed stage has its full rate; 0: off, below
  // 0: a quarter of the steps.
  std::int64_t rescheduling_steps = 0;
  // PipeMare's T2: how much of the velocity is older than the delay.
  double correction_decay = 0.135;
  // PipeMare's T3: steps under `warm_up`, a synchronous program of the same
  // plan, before those under the plan's own.
  std::int64_t warm_up_steps = 0;
  Program warm_up;
};
class Transport;

struct TrainRequest {
  Plan plan;
  Program program;  // the plan's, validated
  MethodSettings method;
  std::string data;  // as open_dataset() takes it
  std::filesystem::path run;
  std::int64_t steps = 0;  // until this many are done, or ...
  std::int64_t epochs = 0;
  // What to evaluate on: data of its own, or a share of `data` that is then not
  // trained on; neither is no evaluation.
  std::string held_out_data;
  double held_out_share = 0;
  std::int64_t evaluate_every = 0;  // steps; 0: every epoch. Always at the end
  OptimizerChoice optimizer;
  // Above 0: clips by global norm; the program then has one (LowerOptions).
  double most_norm = 0;
  LearningRate rate;
  std::uint64_t seed = 1;
  std::int64_t checkpoint_every = 0;  // 0: at the end alone
  bool resume = false;
  Transport* transport = nullptr;  // to other processes; none: all workers here
};

struct StepReport {
  std::int64_t step = 0, steps = 0;  // done, of
  double loss = 0;
  double rate = 0;
  Seconds seconds;  // a step, at present
  double samples_per_second = 0;
  double bubble = 0;
  Seconds left;
};

struct TrainHooks {
  std::function<void(const StepReport&)> on_step;  // may be empty, as others
  std::function<void(const Evaluation&)> on_evaluation;
  // What went wrong and does not end training, in a line.
  std::function<void(const std::string&)> on_warning;
  // Asked between pieces: a signal to end after, or 0.
  std::function<int()> signal;
};

struct TrainReport {
  std::int64_t first_step = 0, steps = 0;  // done before and after
  double first_loss = 0, last_loss = 0;    // of this run's steps
  Seconds step_seconds;                    // median
  std::optional<Evaluation> evaluation;    // the last one
  Timeline timeline;                       // of the last piece
  Bytes memory;            // what the process grew by, at its peak
  std::string checkpoint;  // the folder written last
  int signal = 0;          // that ended it early
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
LastWord follow_training(const Model& model, const TrainRequest& request);

}  // namespace pipewright
