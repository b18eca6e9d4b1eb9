// Lowering for a run of a given length: every action of every worker, with
// microbatches and versions counted from the start of the run. lower() finds
// the repeating part in it.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/lower_options.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct FlatProgram {
  Program program;  // all but the sections of its workers
  // By worker and action. A repetition is one of the schedule's body: -1 in the
  // prologue, the number of repetitions in the epilogue.
  std::vector<std::vector<Action>> actions;
  std::vector<std::vector<std::int32_t>> repetitions;
};

FlatProgram flat_program(const Plan& plan, const Profile& profile,
                         const Homes& homes,
                         const std::vector<LayerSizes>& sizes, int minibatches,
                         const LowerOptions& options);

}  // namespace pipewright
