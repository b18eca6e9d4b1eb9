// Plan + Profile -> Program: the one lowering rule.
//
// Every layer has a forward home and a backward home. A value made on one
// worker and used on another is sent, each storage once per destination, as
// slices where replicas split a microbatch. Skip connections, Bi-Partition's
// extra traffic, tied weights, replicas and Chimera's two directions all follow
// from that; methods differ only in the version an action reads.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/plan/lowering/lower_options.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// Fails with MalformedInput as check_plan does, or if sizes at the plan's
// microbatch are not in the profile; with BadConfiguration for a global norm
// where minibatches overlap.
Result<Program> lower(const Plan& plan, const Profile& profile,
                      const LowerOptions& options = {});

}  // namespace pipewright
