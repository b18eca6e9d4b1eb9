#include "pipewright/plan/program/program.h"

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

void append_section(std::vector<Action>& to, const std::vector<Action>& section,
                    int repetition, int num_microbatches) {
  for (Action action : section) {
    action.microbatch += repetition * num_microbatches;
    action.version += repetition;
    if (action.version < 0) action.version = 0;
    to.push_back(action);
  }
}

}  // namespace

const Operation* Program::operation(WorkerId worker, StageId stage) const {
  if (stage.is_none()) return nullptr;
  const OperationId id = operation_id(worker, stage);
  return id.is_none() ? nullptr : &operations[id.index()];
}

std::vector<Action> unrolled(const Program& program, WorkerId worker,
                             int minibatches) {
  const WorkerProgram& code = program.workers[worker.index()];
  const int repetitions = program.repetitions(minibatches);
  PIPEWRIGHT_CHECK(repetitions >= 0,
                   "a run of " + std::to_string(minibatches) +
                       " minibatches of a program that needs " +
                       std::to_string(program.minibatches_outside));
  std::vector<Action> actions;
  append_section(actions, code.prologue, 0, program.num_microbatches);
  for (int r = 0; r < repetitions; ++r)
    append_section(actions, code.body, r, program.num_microbatches);
  append_section(actions, code.epilogue, repetitions, program.num_microbatches);
  return actions;
}

std::string to_text(const Action& action) {
  const std::string stage = std::to_string(action.stage.value);
  const std::string microbatch = std::to_string(action.microbatch.value);
  const std::string version = " v" + std::to_string(action.version);
  if (is_compute(action.kind))
    return stage + "FBIWR"[static_cast<int>(action.kind)] + microbatch +
           version + (action.joined ? " +" : "");
  switch (action.kind) {
    case ActionKind::Send:
      return "send " + std::to_string(action.transfer.value) + " m" +
             microbatch + version;
    case ActionKind::Receive:
      return "receive " + std::to_string(action.transfer.value) + " m" +
             microbatch + version;
    case ActionKind::Reduce:
      return "reduce " + std::to_string(action.reduction.value) + " stage " +
             stage + version;
    default:
      return "step stage " + stage + version;
  }
}

}  // namespace pipewright
