// Fits the parameters that a profile and a data sheet do not give to steps that
// were measured.
//
// With few measurements, a parameter that is fitted without need makes
// predictions worse. So parameters are taken one after the other, each the one
// that lowers the left-out error most: every run predicted with what is fitted
// to the others (of more than eight runs, every eighth is left out at a time).
// Where none lowers its sum of squares to half, nothing more is fitted. Then
// two at once are tried in place of those: where links are slow and transfers
// block, neither explains the steps alone. Base memory and fragmentation are
// fitted together, by the same rule.

#pragma once

#include <functional>
#include <vector>

#include "cli/calibrate/measured_run.h"

namespace pipewright::cli {

struct Calibration {
  Correction correction;  // fitted to all runs
  std::vector<Parameter> fitted;
  std::vector<Parameter> at_limit;  // of those: the fit tries no value beyond
  bool has_memory = false;          // base memory and fragmentation are fitted
  std::vector<Prediction> before;   // without the correction
  std::vector<Prediction> after;    // with it
  // Of each run, with what calibrate() finds without it and the others of its
  // group: the choice of parameters, too. Empty for one run.
  std::vector<Prediction> left_out;
  std::size_t num_groups = 0;
};

// Needs at least one run. Takes seconds where runs have many microbatches and
// workers. Fails as costs_of() does.
Result<Calibration> calibrate(
    const std::vector<MeasuredRun>& runs,
    const std::function<void(double share)>& progress);

}  // namespace pipewright::cli
