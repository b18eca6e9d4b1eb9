// Whether a run fits into the memory of this machine, asked before step 0.

#pragma once

#include <string>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

// The most that this process may use, and what says so.
struct MachineMemory {
  Bytes bytes;
  std::string text;  // "this machine has", "its control group allows", ...
};
MachineMemory machine_memory();

// Fails with OutOfMemory if what the workers hold at their peaks, as simulated
// with equal times, is more than machine_memory(). `rank` is -1 where all
// workers are here; otherwise only that rank's worker is counted.
Result<void> check_machine_memory(const TrainRequest& request,
                                  const Model& model, int rank);

// A hint that asks for smaller microbatches helps no plan whose microbatches
// have one sample.
Error with_possible_way_out(Error error, const Plan& plan);

}  // namespace pipewright::cli
