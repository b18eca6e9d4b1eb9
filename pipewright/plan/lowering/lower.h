// Plan + Profile -> Program: the one lowering rule.
//
// Every layer has a forward home and a backward home. A value made on one
// worker and used on another is sent, each storage once per destination, as
// slices where replicas split a microbatch. Skip connections, Bi-Partition's
// extra traffic, tied weights, replicas and Chimera's two directions all follow
// from that; methods differ only in the version an action reads.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

struct LowerOptions {
  // Receives posted ahead on each channel (pair of workers and kind): message n
  // is posted when message n - window has been used.
  int window = 4;
  // Above 0: a program for a run of just that many minibatches, without a body
  // that repeats.
  int minibatches = 0;
  // Every step waits for the length of all gradients, to clip by it.
  bool global_norm = false;
  // Workers are threads of one process: what both ends of a transfer keep is
  // there once, and counts as memory of the sender.
  bool shares_memory = false;
};

// Fails with MalformedInput as check_plan does, or if sizes at the plan's
// microbatch are not in the profile; with BadConfiguration for a global norm
// where minibatches overlap.
Result<Program> lower(const Plan& plan, const Profile& profile,
                      const LowerOptions& options = {});

}  // namespace pipewright
