// The options of `train` that say how weights move, and those that replace a
// plan file: a model, workers and stages to plan here.

#pragma once

#include <string>

#include "cli/command.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

struct MethodOptions {
  std::string model;  // instead of a plan
  std::string method = "sync";
  bool vertical_sync = false;
  int workers = 2;
  int stages = 0;  // 0: one per worker
  int minibatch = 64;
  int microbatch = 0;  // 0: about an eighth of the minibatch
  std::int64_t rescheduling_steps = -1;
  bool no_rescheduling = false;
  bool no_correction = false;
  int segment = -1;  // 0: the best; negative: nothing is recomputed
  double correction_decay = 0.135;
  std::int64_t warm_up_steps = 0;
};
// `plan` is the option that names a plan file.
void add_method_options(CLI::App& command, MethodOptions& options,
                        CLI::Option* plan);

// A plan of options.model for an optimizer that keeps this many numbers per
// weight. Fails with BadConfiguration.
Result<Plan> planned_here(const MethodOptions& options, int optimizer_words);

// Lowers request.plan to request.program and sets request.method. Fails as
// lower() and validate() do.
Result<void> lower_with_method(const MethodOptions& options, const Model& model,
                               TrainRequest& request);

}  // namespace pipewright::cli
