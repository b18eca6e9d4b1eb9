// Memory of programs that tests write by hand.

#pragma once

#include "pipewright/plan/program/program.h"

namespace pipewright {

// Of all actions of that kind on that stage, which has one worker.
inline void set_effect(Program& program, StageId stage, ActionKind kind,
                       Effect effect) {
  const LifeSetId id(program.life_sets.size());
  program.life_sets.push_back({{}, {}, effect});
  for (WorkerProgram& worker : program.workers)
    for (auto* section : {&worker.prologue, &worker.body, &worker.epilogue})
      for (Action& action : *section)
        if (action.stage == stage && action.kind == kind) action.life_set = id;
}

}  // namespace pipewright
