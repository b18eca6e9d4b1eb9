// Whether the workers of a program have the memory for it, whatever devices and
// links do (plan/memory/memory_bound.h): what `validate --cluster` proves, and
// `plan` says where its own figure, the simulated peak, does not suffice for
// it.

#pragma once

#include <string>
#include <vector>

#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program/program.h"

namespace pipewright::cli {

// The memory of each worker's device. Fails with BadConfiguration if the
// cluster does not have it.
Result<std::vector<Bytes>> device_memory(const Program& program,
                                         const Cluster& cluster);

// "worker 1 holds at most 9 GB of 16 GB (...), at 1F3", of the worker that has
// least to spare. Fails with BadConfiguration where a limit is too small.
Result<std::string> memory_proof(const Program& program,
                                 const std::vector<Bytes>& limits);

}  // namespace pipewright::cli
