// What a program costs when all its workers are threads of one process on this
// machine: tensors are passed on without a copy, and the workers that wait for
// a sum of gradients add it up in memory.

#pragma once

#include "pipewright/base/result.h"
#include "pipewright/simulate/costs.h"

namespace pipewright {

struct InProcessChannelCosts {
  Seconds latency;         // from a send until the waiting worker goes on
  double bytes_added = 0;  // per second, by one worker adding up two gradients
};

// Compute times are those of device kind "cpu" in the profile; best measured
// with as many workers at once as the program has. Fails as costs_of() does.
Result<Costs> in_process_costs(const Program& program, const Profile& profile,
                               const InProcessChannelCosts& channel);

}  // namespace pipewright
