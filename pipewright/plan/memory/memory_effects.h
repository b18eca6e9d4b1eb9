// Which bytes an operation allocates and frees, and which a transfer occupies
// at its two ends: a value's life, from where it is made to its last use.

#pragma once

#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/traffic.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// The workers' devices and the operations, without their effects.
void set_operations(Program& program, const Plan& plan);

// Of the layers whose backward it runs, each parameter once.
Bytes weights_of(const Operation& operation, const Profile& profile);

// Copies of its weights, beside their versions, that corrected reads take: the
// velocity, and the weights moved back along it, for backward and, where those
// are others, for the recomputation.
int correction_words(const Operation& operation, const StageDelay& delay);

// Fills effects, gradients and optimizer of program.operations, and
// freed_by_sender and retained_by_reader of program.transfers. `lanes` has one
// entry per microbatch; the first that runs a stage on a worker stands for all.
// With `shares_memory` what both ends of a transfer keep is not copied.
void set_memory_effects(Program& program, const Plan& plan,
                        const Profile& profile, const Homes& homes,
                        const Traffic& traffic,
                        const std::vector<const Lane*>& lanes,
                        bool shares_memory);

}  // namespace pipewright
