// What a run on this machine holds that a program for any devices does not say:
// workers are threads of one process, kernels need what they were measured to
// need, and a step makes tensors of its own.

#pragma once

#include <string>

#include "pipewright/base/ids.h"
#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/memory/memory_use.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct StepMemory {
  OptimizerMemory optimizer;  // with masters where the weights need them
  bool clips = false;         // by the norm of all gradients
  // Of weight gradients, from one step to the next: what a GPU replays has its
  // memory for good.
  bool keeps_sums = false;
};
// On workers of that kind of device. Fails as memory_of() does.
Result<StepMemory> step_memory(const OptimizerChoice& choice, bool clips,
                               const Model& model, const std::string& device);

// The plan's program with the memory of this machine: measured workspace,
// tensors handed over and not copied, the optimizer's own words for each
// weight, the velocity of corrected weights; not the samples, which are the
// loader's. Sums of weight gradients of a synchronous method begin with the
// first backward of a minibatch, where its activations are the most: effects
// take them off until then. Fails as lower() does.
Result<Program> with_run_memory(Program program, const Plan& plan,
                                const Model& model, Profile profile,
                                const StepMemory& step);

// A worker's simulated peak, or what it holds at a step if that is more: sums
// over replicas, and the optimizer's temporary memory.
MemoryUse peak_with_steps(const Program& program, const Model& model,
                          WorkerId worker, const StepMemory& step,
                          const MemoryUse& simulated);

}  // namespace pipewright
