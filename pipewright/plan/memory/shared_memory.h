// Whether a run fits into the memory that its workers share: that of this
// machine, for workers on its cores, and that of each of its GPUs.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

// The most that this process may use, and what says so.
struct MachineMemory {
  Bytes bytes;
  std::string text;  // "this machine has", "its control group allows", ...
};

struct GpuMemory {
  Bytes bytes;
  std::string name;          // "NVIDIA H200"
  int major_capability = 0;  // 9; base memory depends on it
};

// What a worker's tensors take at their peak, and where.
struct WorkerMemory {
  int worker = 0;
  Bytes peak;
  std::optional<int> gpu = {};  // of this machine; none: a core
};

// On which of the GPUs that this process sees each worker is; none: a core. As
// many workers of a GPU's share are on a GPU as it has shares, and all streams
// are on the first one. `kinds` and `gpus`: as for first_gpu_of_rank(); where
// one process has all workers `gpus` is empty.
std::vector<std::optional<int>> gpus_of_workers(
    const std::vector<std::string>& kinds,
    const std::vector<std::string>& gpus = {});

// Fails with OutOfMemory, naming the workers, if those on cores need more than
// the machine's memory, or those on one GPU, with their base memory, more than
// the GPU's. A GPU that is not known has enough.
Result<void> check_shared_memory(const std::vector<WorkerMemory>& workers,
                                 const MachineMemory& machine,
                                 const std::vector<GpuMemory>& gpus);

}  // namespace pipewright
