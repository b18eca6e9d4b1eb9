// Which bytes an action allocates and frees, and which a transfer occupies at
// its two ends: sums over the life sets of microbatches' passages through the
// workers (lowering/lifetimes.h).

#pragma once

#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/lifetimes.h"
#include "pipewright/plan/lowering/traffic.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// Of the layers whose backward it runs, each parameter once.
Bytes weights_of(const Operation& operation, const Profile& profile);

// Copies of its weights, beside their versions, that a stage keeps to correct
// what its backward reads: the velocity. Weights moved back along it are there
// while one layer reads them.
int velocity_words(const StageDelay& delay);

// What lowering has found out by the time it counts memory.
struct MemoryInputs {
  const Plan& plan;
  const Profile& profile;
  const Homes& homes;
  const Traffic& traffic;
  const std::vector<const Lane*>& lanes;  // by microbatch of the run
  const Passages& passages;
  bool shares_memory =
      false;  // what both ends of a transfer keep is one tensor
};

// Reads program.delays. Fills the effects of program.life_sets, gradients and
// optimizer of program.operations, and freed_by_sender and retained_by_reader
// of program.transfers.
void set_memory_effects(Program& program, const MemoryInputs& inputs);

}  // namespace pipewright
