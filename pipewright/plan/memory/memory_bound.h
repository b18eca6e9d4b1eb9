// How much each worker of a program can hold at once, whatever the devices and
// links do: part of the proof that a program can be run (validate.h).
//
// A worker's own work allocates and frees in the order of its program. What
// others decide is when transfers happen; so each is taken at its worst that
// the program allows:
//   - what arrives occupies its buffer as soon as it is posted and can have
//     been sent, that is, as soon as the worker has done all that the sender
//     waited for, directly or through others;
//   - what is sent is held until the worker has read something that was made
//     after the receiver read it, again directly or through others.
// A simulated or measured peak is never above, and mostly near.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/memory/memory_use.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

struct MemoryBound {
  MemoryUse peak;
  std::int64_t position = 0;  // of the action among all of the worker's run
  Action action;              // during which it holds that, absolute
  int microbatches = 0;  // whose activations are held then, over all stages
};

// One for each worker. The program must have passed validate().
std::vector<MemoryBound> memory_bounds(const Program& program);

// Fails with BadConfiguration unless every worker's bound is within its limit
// (one per worker): which, when, what it consists of, and the grid with the
// action marked.
Result<void> check_memory(const Program& program,
                          const std::vector<Bytes>& limits);

}  // namespace pipewright
