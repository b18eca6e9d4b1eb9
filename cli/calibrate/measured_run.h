// A run that somebody measured, and what the simulator predicts for it.

#pragma once

#include <optional>
#include <string>

#include "cli/calibrate/correction.h"
#include "cli/simulate/lowered_plan.h"

namespace pipewright::cli {

struct MeasuredRun {
  std::string name;
  std::string cluster_file;
  LoweredPlan lowered;
  Seconds step;
  std::optional<Bytes> memory;  // of the device with the most in use
};

struct Prediction {
  Seconds step;
  Bytes memory;  // of the device with the most in use
};

// On its cluster with the correction; without memory, which takes longer to
// simulate, that is 0. Fails as costs_of() does.
Result<Prediction> predicted(const MeasuredRun& run,
                             const Correction& correction, bool with_memory);

}  // namespace pipewright::cli
