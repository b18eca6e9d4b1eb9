// Proves that the workers of a program have enough memory, whatever the timing
// of devices and links (plan/memory/memory_bound.h). For `validate --cluster`,
// and for the warning of `plan`.

#pragma once

#include <string>
#include <vector>

#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/program/program.h"

namespace pipewright::cli {

// The memory of each worker's device. Fails with BadConfiguration if the
// cluster does not have the device.
Result<std::vector<Bytes>> device_memory(const Program& program,
                                         const Cluster& cluster);

// "worker 1 uses at most 9 GB of 16 GB (...), at 1F3", for the worker with the
// least free memory. Fails with BadConfiguration if a limit is too small.
Result<std::string> memory_proof(const Program& program,
                                 const std::vector<Bytes>& limits);

}  // namespace pipewright::cli
