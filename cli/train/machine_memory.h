// Whether a run fits into the memory of this machine and of its GPUs, asked
// before step 0.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/memory/shared_memory.h"
#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

// The most that this process may use, and what says so.
MachineMemory machine_memory();

// Fails with OutOfMemory if what the workers hold at their peaks, as simulated
// with equal times, is more than machine_memory(), or, with base memory, than
// that of the GPU which they share. `rank` is -1 where all workers are here;
// otherwise only that rank's worker is counted, and those on the same GPU:
// `gpus_seen` is as in choose_devices().
Result<void> check_machine_memory(const TrainRequest& request,
                                  const Model& model, int rank,
                                  const std::vector<std::string>& gpus_seen);

// A hint that asks for smaller microbatches helps no plan whose microbatches
// have one sample.
Error with_possible_way_out(Error error, const Plan& plan);

}  // namespace pipewright::cli
