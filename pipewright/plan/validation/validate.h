// The proof that a program can be run: no hang, no missing value, no overflow.

#pragma once

#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// What the proof found out on the way, stage by stage.
struct ProgramFacts {
  std::int64_t num_actions = 0;
  std::vector<int> peak_in_flight;    // microbatches, per stage
  std::vector<StageDelay> staleness;  // per stage
};

// Proves, for a run of any number of minibatches and links without buffers:
//   - every transfer, version and reduction an action reads is there before it,
//   - every send has one receive of the same transfer, in the same order on
//     each channel (pair of workers and kind),
//   - no deadlock,
//   - each (stage, microbatch) is done once, on one worker or on all of its
//     replicas,
//   - a step follows the last gradient of its minibatch, and reads of a version
//     stay within the versions held.
// That memory suffices is proved in memory_bound.h, where devices are known.
// Fails with MalformedInput: the worker and action, why, and the grid with the
// action marked; for a deadlock the cycle, worker by worker.
// Linear in the number of actions.
Result<ProgramFacts> validate(const Program& program);

// Repetitions after which every distance that occurs in the body has occurred:
// a fault in a longer run is one of these runs moved by whole repetitions.
int settling_repetitions(const Program& program);

}  // namespace pipewright
