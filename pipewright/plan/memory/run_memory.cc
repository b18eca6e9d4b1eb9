#include "pipewright/plan/memory/run_memory.h"

#include <algorithm>
#include <set>
#include <utility>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/memory_effects.h"
#include "pipewright/plan/memory/memory_use.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
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

// Tensors of the size of one parameter, one parameter at a time.
Bytes temporaries(const StepMemory& step, const Model& model,
                  const Program& program, WorkerId worker) {
  Bytes peak;
  for (const Operation& operation : program.operations) {
    if (operation.worker != worker) continue;
    std::int64_t tensors = std::max(step.optimizer.temporaries, +step.clips);
    // The weights before the step, and the step.
    if (program.delays[operation.stage.index()].averaging > 0)
      tensors = std::max<std::int64_t>(tensors + 1, 2);
    for (const LayerId layer : operation.backward)
      for (const ParameterId id : model.layer(layer).parameters) {
        const Parameter& parameter = model.parameter(id);
        peak = std::max(peak, size_of(parameter.type) *
                                  num_elements(parameter.shape) * tensors);
      }
  }
  return peak;
}

// Without the correction PipeMare's weights move as those of naive.
Plan as_run(Plan plan, const Program& program) {
  const bool corrects =
      std::any_of(program.delays.begin(), program.delays.end(),
                  [](const StageDelay& delay) { return delay.corrected; });
  if (plan.method == Method::PipeMare && !corrects) plan.method = Method::Naive;
  return plan;
}

bool makes_sums(ActionKind kind) {
  return kind == ActionKind::Backward || kind == ActionKind::BackwardWeight;
}

// What the action before a step allocates and the step itself does not, at
// least.
Bytes least_work(const Program& program, WorkerId worker) {
  Bytes least{INT64_MAX};
  const WorkerProgram& code = program.workers[worker.index()];
  for (const auto* section : {&code.prologue, &code.body, &code.epilogue})
    for (const Action& action : *section)
      if (makes_sums(action.kind))
        least = std::min(least, program.life(action).effect.allocates);
  return least == Bytes(INT64_MAX) ? Bytes(0) : least;
}

// The action's effect, no longer shared with other actions.
Effect& own_effect(Program& program, Action& action) {
  LifeSet own = program.life(action);
  action.life_set = LifeSetId(program.life_sets.size());
  program.life_sets.push_back(std::move(own));
  return program.life_sets.back().effect;
}

// The stage's sums are there from its first B or W to the end of the body.
void begin_sums(Program& program, const Operation& operation) {
  auto& body = program.workers[operation.worker.index()].body;
  const auto first = [&](auto is_wanted) {
    return std::find_if(body.begin(), body.end(), [&](const Action& action) {
      return is_compute(action.kind) && action.stage == operation.stage &&
             is_wanted(action.kind);
    });
  };
  const auto start = first([](ActionKind) { return true; });
  const auto maker = first(makes_sums);
  if (maker == body.end()) return;
  own_effect(program, *start).allocates -= operation.gradients;
  const Bytes begun = program.life(*maker).begins_sums;
  Effect& effect = own_effect(program, *maker);
  const Bytes stays = effect.allocates - effect.frees + operation.gradients;
  effect.allocates = std::max(effect.allocates + begun, stays);
  effect.frees = effect.allocates - stays;
}

}  // namespace

Result<StepMemory> step_memory(const OptimizerChoice& choice, bool clips,
                               const Model& model, const std::string& device) {
  PIPEWRIGHT_TRY(OptimizerMemory memory, memory_of(choice));
  const auto& parameters = model.parameters();
  if (!parameters.empty() && has_masters(to_text(parameters.front().type)))
    memory = choice.masters ? with_masters(memory) : without_masters(memory);
  return StepMemory{memory, clips, device != "cpu"};
}

Result<Program> with_run_memory(Program program, const Plan& plan,
                                const Model& model, Profile profile,
                                const StepMemory& step) {
  leave_out_samples(model, profile);
  LowerOptions options;
  options.global_norm = step.clips;
  options.shares_memory = true;
  PIPEWRIGHT_TRY(Program lowered,
                 lower(as_run(plan, program), profile, options));
  program.transfers = std::move(lowered.transfers);
  program.operations = std::move(lowered.operations);
  program.life_sets = std::move(lowered.life_sets);
  for (Operation& operation : program.operations) {
    const StageDelay& delay = program.delays[operation.stage.index()];
    const int words = step.optimizer.words + velocity_words(delay);
    operation.optimizer = weights_of(operation, profile) * std::int64_t{words};
  }
  if (program.minibatches_outside == 0 && !step.keeps_sums)
    for (const Operation& operation : program.operations)
      begin_sums(program, operation);
  return program;
}

MemoryUse peak_with_steps(const Program& program, const Model& model,
                          WorkerId worker, const StepMemory& step,
                          const MemoryUse& simulated) {
  MemoryUse at_step = constant_memory(program, worker);
  at_step.buffers = sums_over_workers(program, worker) +
                    temporaries(step, model, program, worker);
  if (program.minibatches_outside > 0) {  // other minibatches are there, too
    at_step.activations = simulated.activations - least_work(program, worker);
    at_step.buffers += simulated.buffers;
  }
  return at_step.total() > simulated.total() ? at_step : simulated;
}

}  // namespace pipewright
