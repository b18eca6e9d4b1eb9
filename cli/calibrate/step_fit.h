// Fits given parameters to some of the measured runs.
//
// It does not know which parameters are worth fitting: calibration.h.

#pragma once

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "cli/calibrate/left_out.h"
#include "cli/calibrate/measured_run.h"

namespace pipewright::cli {

// What is fitted: parameters one after the other, or two of them at once.
struct ParameterChoice {
  std::vector<Parameter> parameters;
  bool at_once = false;
};

// The runs must outlive this object.
class StepFit {
 public:
  explicit StepFit(const std::vector<MeasuredRun>& runs) : runs_(runs) {}

  // The sum of squares of ln(predicted / measured).
  Result<double> error(const Places& places, const Correction& correction);

  // One after the other: several of them twice. At once: neither need lower the
  // error without the other.
  Result<Correction> fitted(const Places& places,
                            const ParameterChoice& choice);

  // Whether the fitted value is the least or the most that fitted() tries, and
  // another one is possible: never for the overlap.
  bool is_at_limit(const Places& places, Parameter parameter,
                   const Correction& correction) const;

 private:
  struct Range {
    double low = 0, high = 1;
    double at(double share, Parameter parameter) const;
  };

  // Fits to different runs ask for the same predictions.
  Result<Seconds> step_of(std::size_t run, const Correction& correction);
  Range range_of(const Places& places, Parameter parameter) const;
  Result<void> fit_one(const Places& places, Parameter parameter,
                       Correction& correction);
  Result<Correction> fitted_at_once(const Places& places, Parameter one,
                                    Parameter other);

  const std::vector<MeasuredRun>& runs_;
  std::map<std::pair<std::size_t, std::array<double, kParameters.size()>>,
           Seconds>
      steps_;
};

}  // namespace pipewright::cli
