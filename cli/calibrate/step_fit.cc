#include "cli/calibrate/step_fit.h"

#include <algorithm>
#include <cmath>

#include "cli/calibrate/pair_search.h"

namespace pipewright::cli {
namespace {

// How often in a step the operation with the most of it has an overhead.
double per_step(const LoweredPlan& lowered, Parameter parameter) {
  const Program& program = lowered.program;
  if (parameter == Parameter::StepOverhead) return 1;
  if (parameter == Parameter::ActionOverhead)
    return 2.0 * program.num_microbatches;
  std::ptrdiff_t layers = 1;
  for (const Operation& operation : program.operations)
    layers = std::max(
        layers, std::count_if(operation.backward.begin(),
                              operation.backward.end(), [&](LayerId layer) {
                                return lowered.profile.has_weights(layer);
                              }));
  return static_cast<double>(layers) * program.num_microbatches;
}

}  // namespace

Result<double> StepFit::error(const Places& places,
                              const Correction& correction) {
  double sum = 0;
  for (std::size_t run : places) {
    PIPEWRIGHT_TRY(const Seconds step, step_of(run, correction));
    const double off = std::log(step / runs_[run].step);
    sum += off * off;
  }
  return sum;
}

Result<Correction> StepFit::fitted(const Places& places,
                                   const ParameterChoice& choice) {
  const std::vector<Parameter>& parameters = choice.parameters;
  if (choice.at_once)
    return fitted_at_once(places, parameters.at(0), parameters.at(1));
  Correction correction;
  const int rounds = parameters.size() > 1 ? 2 : 1;
  for (int round = 0; round < rounds; ++round)
    for (Parameter parameter : parameters)
      if (Result<void> found = fit_one(places, parameter, correction); !found)
        return found.error();
  return correction;
}

bool StepFit::is_at_limit(const Places& places, Parameter parameter,
                          const Correction& correction) const {
  if (parameter == Parameter::Overlap) return false;
  const Range range = range_of(places, parameter);
  const double value = value_of(correction, parameter);
  constexpr double kNearly = 1 - 1e-9;  // points of a grid are rounded
  return value >= range.high * kNearly ||
         (range.low > 0 && value * kNearly <= range.low);
}

Result<Seconds> StepFit::step_of(std::size_t run,
                                 const Correction& correction) {
  std::array<double, kParameters.size()> values;
  for (std::size_t i = 0; i < kParameters.size(); ++i)
    values[i] = value_of(correction, kParameters[i]);
  const auto key = std::pair(run, values);
  if (const auto known = steps_.find(key); known != steps_.end())
    return known->second;
  PIPEWRIGHT_TRY(const Prediction made,
                 predicted(runs_[run], correction, false));
  steps_[key] = made.step;
  return made.step;
}

// Overheads are at most as long as the longest step allows.
StepFit::Range StepFit::range_of(const Places& places,
                                 Parameter parameter) const {
  if (parameter == Parameter::LayerOverhead || parameter == Parameter::Overlap)
    return {0, 1};
  if (parameter == Parameter::LinkRate) return {0.05, 2};
  double longest = 0;
  for (std::size_t run : places)
    longest = std::max(longest, runs_[run].step.value() /
                                    per_step(runs_[run].lowered, parameter));
  return {0, longest};
}

// A grid, and ever finer ones around its best point: the step depends on a
// parameter by pieces, and need not have one minimum.
Result<void> StepFit::fit_one(const Places& places, Parameter parameter,
                              Correction& correction) {
  const Range range = range_of(places, parameter);
  constexpr int kPoints = 16;
  PIPEWRIGHT_TRY(double least, error(places, correction));
  double low = range.low, high = range.high;
  for (int level = 0; level < 3; ++level) {
    const double width = (high - low) / kPoints;
    for (int i = 0; i <= kPoints; ++i) {
      Correction tried = correction;
      set(tried, parameter, low + i * width);
      PIPEWRIGHT_TRY(const double here, error(places, tried));
      if (here >= least) continue;
      least = here;
      correction = tried;
    }
    const double best = value_of(correction, parameter);
    if (best < range.low) return {};  // unchanged is best
    low = std::max(range.low, best - width);
    high = std::min(range.high, best + width);
  }
  return {};
}

// More of the points that are tried are where a value is likely: at small
// overheads, and at links that have a part of their rates.
double StepFit::Range::at(double share, Parameter parameter) const {
  if (parameter == Parameter::Overlap) return low + share * (high - low);
  if (parameter == Parameter::LinkRate)
    return low * std::pow(high / low, share);
  return low + share * share * (high - low);
}

Result<Correction> StepFit::fitted_at_once(const Places& places, Parameter one,
                                           Parameter other) {
  const Range first = range_of(places, one), second = range_of(places, other);
  const auto correction_at = [&](const Point& point) {
    Correction correction;
    set(correction, one, first.at(point[0], one));
    set(correction, other, second.at(point[1], other));
    return correction;
  };
  PIPEWRIGHT_TRY(const Point best, least_point([&](const Point& point) {
                   return error(places, correction_at(point));
                 }));
  return correction_at(best);
}

}  // namespace pipewright::cli
