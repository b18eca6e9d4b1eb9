// Fits the parameters that a profile and a data sheet do not give to steps that
// were measured.
//
// With few measurements, a parameter that is fitted without need makes
// predictions worse. So parameters are taken one after the other, each the one
// that lowers the leave-one-out error most: every run predicted with what is
// fitted to the others (of more than eight runs, every eighth is left out at a
// time). Where none lowers it, nothing more is fitted.

#pragma once

#include <optional>
#include <vector>

#include "cli/calibrate/correction.h"
#include "cli/simulate/lowered_plan.h"

namespace pipewright::cli {

struct MeasuredRun {
  std::string name;
  LoweredPlan lowered;
  Seconds step;
  std::optional<Bytes> memory;  // of the device with the most in use
};

struct Prediction {
  Seconds step;
  Bytes memory;  // of the device with the most in use
};

struct Calibration {
  Correction correction;  // fitted to all runs
  std::vector<Parameter> fitted;
  bool has_memory = false;           // base memory and fragmentation are fitted
  std::vector<Prediction> before;    // without the correction
  std::vector<Prediction> after;     // with it
  std::vector<Prediction> left_out;  // fitted to the other runs; empty for one
};

// Needs at least one run. Fails as costs_of() does.
Result<Calibration> calibrate(const std::vector<MeasuredRun>& runs);

}  // namespace pipewright::cli
