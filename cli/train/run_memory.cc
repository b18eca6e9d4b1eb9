#include "cli/train/run_memory.h"

#include <algorithm>
#include <set>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/memory_effects.h"
#include "pipewright/plan/memory/memory_use.h"
#include "pipewright/profile/analytic.h"

namespace pipewright::cli {
namespace {

// Those of the worker's stages.
Bytes sums_over_workers(const Program& program, WorkerId worker) {
  Bytes bytes;
  for (const Reduction& reduction : program.reductions) {
    const std::set<WorkerId> workers(reduction.workers.begin(),
                                     reduction.workers.end());
    if (!reduction.is_norm && workers.size() > 1 && workers.count(worker))
      bytes += reduction.bytes;
  }
  return bytes;
}

bool is_in_place(const TrainRequest& request) {
  const OptimizerChoice& choice = request.optimizer;
  return choice.name == "sgd" && choice.weight_decay.value_or(0) == 0 &&
         !choice.nesterov && request.max_norm == 0;
}

// Tensors of the size of one parameter, one parameter at a time.
Bytes made_in_passing(const TrainRequest& request, const Model& model,
                      const Program& program, WorkerId worker) {
  Bytes most;
  for (const Operation& operation : program.operations) {
    if (operation.worker != worker) continue;
    std::int64_t tensors = is_in_place(request) ? 0 : 1;
    // The weights before the step, and the step.
    if (program.delays[operation.stage.index()].averaging > 0) tensors = 2;
    for (const LayerId layer : operation.backward)
      for (const ParameterId id : model.layer(layer).parameters) {
        const Parameter& parameter = model.parameter(id);
        most = std::max(most, size_of(parameter.type) *
                                  num_elements(parameter.shape) * tensors);
      }
  }
  return most;
}

// What the action before a step allocates and the step itself does not, at
// least.
Bytes least_work(const Program& program, WorkerId worker) {
  Bytes least{INT64_MAX};
  const WorkerProgram& code = program.workers[worker.index()];
  for (const auto* section : {&code.prologue, &code.body, &code.epilogue})
    for (const Action& action : *section)
      if (action.kind == ActionKind::Backward ||
          action.kind == ActionKind::BackwardWeight)
        least = std::min(least, program.life(action).effect.allocates);
  return least == Bytes(INT64_MAX) ? Bytes(0) : least;
}

}  // namespace

Result<Program> with_run_memory(const TrainRequest& request, const Model& model,
                                Profile profile, int optimizer_words) {
  leave_out_samples(model, profile);
  LowerOptions options;
  options.global_norm = request.max_norm > 0;
  options.shares_memory = true;
  PIPEWRIGHT_TRY(Program lowered, lower(request.plan, profile, options));
  Program program = request.program;
  program.transfers = std::move(lowered.transfers);
  program.operations = std::move(lowered.operations);
  program.life_sets = std::move(lowered.life_sets);
  for (Operation& operation : program.operations) {
    const StageDelay& delay = program.delays[operation.stage.index()];
    const int words = optimizer_words + correction_words(operation, delay);
    operation.optimizer = weights_of(operation, profile) * std::int64_t{words};
  }
  return program;
}

void add_step_memory(const TrainRequest& request, const Model& model,
                     const Program& program, Timeline& timeline) {
  const bool drains = program.minibatches_outside == 0;
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    const WorkerId worker(w);
    const Bytes step = sums_over_workers(program, worker) +
                       made_in_passing(request, model, program, worker);
    MemoryUse& peak = timeline.workers[w].peak;
    MemoryUse at_step = constant_memory(program, worker);
    at_step.buffers = step;
    if (!drains) {  // other minibatches are there, too
      at_step.activations = peak.activations - least_work(program, worker);
      at_step.buffers += peak.buffers;
    }
    if (at_step.total() > peak.total()) peak = at_step;
  }
}

}  // namespace pipewright::cli
