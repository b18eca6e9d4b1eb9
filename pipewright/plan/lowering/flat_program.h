// Lowering for a run of a given length: every action of every worker, with
// microbatches and versions counted from the start of the run. lower() finds
// the repeating part in it.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// An action and the repetition of the schedule's body that it belongs to: -1 in
// the prologue, the number of repetitions in the epilogue.
struct FlatAction {
  Action action;
  std::int32_t repetition = 0;
};

struct FlatProgram {
  Program program;  // all but the sections of its workers
  std::vector<std::vector<FlatAction>> actions;  // per worker
};

FlatProgram flat_program(const Plan& plan, const Profile& profile,
                         const Homes& homes,
                         const std::vector<LayerSizes>& sizes, int minibatches,
                         const LowerOptions& options);

}  // namespace pipewright
