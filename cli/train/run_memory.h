// What a run on this machine holds that a program for any devices does not say:
// workers are threads of one process, kernels need what they were measured to
// need, and a step makes tensors of its own.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/training/trainer.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright::cli {

// The request's program with the memory of this machine: measured workspace,
// tensors handed over and not copied, the optimizer's own words for each
// weight, corrected weights beside the newest; not the samples, which are the
// loader's.
Result<Program> with_run_memory(const TrainRequest& request, const Model& model,
                                Profile profile, int optimizer_words);

// Raises peaks of the simulated program where a step holds more than its
// layers: sums over replicas, and what the optimizer makes in passing.
void add_step_memory(const TrainRequest& request, const Model& model,
                     const Program& program, Timeline& timeline);

}  // namespace pipewright::cli
