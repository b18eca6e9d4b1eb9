// Fits base memory and fragmentation to measured memory.

#pragma once

#include <optional>

#include "cli/calibrate/left_out.h"
#include "cli/calibrate/measured_run.h"

namespace pipewright::cli {

struct MemoryFit {
  double base = 0;           // bytes
  double fragmentation = 0;  // of what is predicted
};

// Neither is below 0. `predictions` are without a correction. Nothing where no
// memory was measured, or where it does not make predictions of memory that is
// left out clearly better; one measurement is fitted as it is.
std::optional<MemoryFit> memory_fit(const std::vector<MeasuredRun>& runs,
                                    const std::vector<Prediction>& predictions,
                                    const Places& places);

}  // namespace pipewright::cli
