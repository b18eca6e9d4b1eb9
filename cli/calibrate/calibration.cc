#include "cli/calibrate/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "pipewright/base/check.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::cli {
namespace {

using Places = std::vector<std::size_t>;  // of runs

// A parameter must lower the leave-one-out error by this share to be fitted.
constexpr double kLeastGain = 0.05;
constexpr std::size_t kMaxFolds = 8;
// An error per run, squared, below which no more parameters are looked for.
constexpr double kGoodEnough = 1e-3 * 1e-3;

struct Range {
  double low = 0, high = 1;
};

Result<Prediction> predicted(const MeasuredRun& run,
                             const Correction& correction, bool with_memory) {
  const LoweredPlan& lowered = run.lowered;
  PIPEWRIGHT_TRY(const Cluster cluster, corrected(lowered.cluster, correction));
  PIPEWRIGHT_TRY(const Costs costs,
                 costs_of(lowered.program, lowered.profile, cluster));
  SimulateOptions options;
  options.keep_spans = false;
  options.track_memory = with_memory;
  const Timeline timeline = simulate(lowered.program, costs, options);
  Prediction prediction;
  prediction.step = timeline.step_seconds;
  for (const WorkerSummary& worker : timeline.workers)
    prediction.memory = std::max(prediction.memory, worker.peak.total());
  return prediction;
}

class Fitter {
 public:
  explicit Fitter(const std::vector<MeasuredRun>& runs) : runs_(runs) {}

  // The sum of squares of ln(predicted / measured).
  Result<double> error(const Places& places, const Correction& correction) {
    double sum = 0;
    for (std::size_t run : places) {
      PIPEWRIGHT_TRY(const Seconds step, step_of(run, correction));
      const double off = std::log(step / runs_[run].step);
      sum += off * off;
    }
    return sum;
  }

  // One parameter after the other; several of them twice.
  Result<Correction> fit(const Places& places,
                         const std::vector<Parameter>& parameters) {
    Correction correction;
    const int rounds = parameters.size() > 1 ? 2 : 1;
    for (int round = 0; round < rounds; ++round)
      for (Parameter parameter : parameters)
        if (Result<void> found = fit_one(places, parameter, correction); !found)
          return found.error();
    return correction;
  }

  Result<double> left_out_error(const std::vector<Parameter>& parameters) {
    double sum = 0;
    for (std::size_t fold = 0; fold < num_folds(); ++fold) {
      PIPEWRIGHT_TRY(const Correction fitted, fit(others(fold), parameters));
      PIPEWRIGHT_TRY(const double off, error(left_out(fold), fitted));
      sum += off;
    }
    return sum;
  }

  // One run each; of many runs, several.
  std::size_t num_folds() const { return std::min(runs_.size(), kMaxFolds); }
  Places left_out(std::size_t fold) const { return of_fold(fold, true); }
  Places others(std::size_t fold) const { return of_fold(fold, false); }

 private:
  Places of_fold(std::size_t fold, bool is_in) const {
    Places places;
    for (std::size_t run = 0; run < runs_.size(); ++run)
      if ((run % num_folds() == fold) == is_in) places.push_back(run);
    return places;
  }

  // Fits to different runs ask for the same predictions.
  Result<Seconds> step_of(std::size_t run, const Correction& correction) {
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
  Range range_of(Parameter parameter) const {
    if (parameter == Parameter::LayerOverhead ||
        parameter == Parameter::Overlap)
      return {0, 1};
    if (parameter == Parameter::LinkRate) return {0.05, 2};
    double longest = 0;
    for (const MeasuredRun& run : runs_)
      longest = std::max(longest,
                         run.step.value() / per_step(run.lowered, parameter));
    return {0, longest};
  }

  // How often in a step the operation with the most of it has an overhead.
  static double per_step(const LoweredPlan& lowered, Parameter parameter) {
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

  // A grid, and ever finer ones around its best point: the step depends on a
  // parameter by pieces, and need not have one minimum.
  Result<void> fit_one(const Places& places, Parameter parameter,
                       Correction& correction) {
    const Range range = range_of(parameter);
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

  const std::vector<MeasuredRun>& runs_;
  std::map<std::pair<std::size_t, std::array<double, kParameters.size()>>,
           Seconds>
      steps_;
};

Result<std::vector<Parameter>> chosen_parameters(Fitter& fitter,
                                                 std::size_t num_runs) {
  std::vector<Parameter> chosen;
  if (num_runs < 2) return std::vector{Parameter::LayerOverhead};
  PIPEWRIGHT_TRY(double least, fitter.left_out_error(chosen));
  const double good_enough = kGoodEnough * static_cast<double>(num_runs);
  while (chosen.size() + 1 < num_runs && least > good_enough) {
    std::optional<Parameter> best;
    double least_now = least;
    for (Parameter parameter : kParameters) {
      if (std::find(chosen.begin(), chosen.end(), parameter) != chosen.end())
        continue;
      std::vector<Parameter> tried = chosen;
      tried.push_back(parameter);
      PIPEWRIGHT_TRY(double error, fitter.left_out_error(tried));
      error = std::max(error, good_enough);
      if (error > least_now * (1 - kLeastGain)) continue;
      least_now = error;
      best = parameter;
    }
    if (!best) break;
    chosen.push_back(*best);
    least = least_now;
  }
  return chosen;
}

// Base memory and fragmentation by least squares of relative errors, neither
// below 0: measured = base + (1 + fragmentation) * held.
void fit_memory(const std::vector<MeasuredRun>& runs,
                const std::vector<Prediction>& before, const Places& places,
                Correction& correction) {
  double one = 0, held = 0, held_held = 0, rest = 0, held_rest = 0;
  int count = 0;
  for (std::size_t run : places) {
    if (!runs[run].memory || runs[run].memory->value() <= 0) continue;
    const double weight = 1 / static_cast<double>(runs[run].memory->value());
    const double h = static_cast<double>(before[run].memory.value()) * weight;
    const double r = 1 - h;  // beyond what is predicted
    one += weight * weight;
    held += weight * h;
    held_held += h * h;
    rest += weight * r;
    held_rest += h * r;
    ++count;
  }
  if (count == 0) return;
  const double base_only = std::max(0.0, rest / one);
  double base = base_only, share = 0;
  const double determinant = one * held_held - held * held;
  if (count > 1 && determinant > 1e-12 * one * held_held) {
    const double b = (rest * held_held - held_rest * held) / determinant;
    const double f = (one * held_rest - held * rest) / determinant;
    if (b >= 0 && f >= 0) base = b, share = f;
    if (b < 0) base = 0, share = std::max(0.0, held_rest / held_held);
  }
  correction.base_memory = Bytes(static_cast<std::int64_t>(base));
  correction.fragmentation = share;
}

Result<Correction> fit_all(Fitter& fitter, const std::vector<MeasuredRun>& runs,
                           const std::vector<Prediction>& before,
                           const Places& places,
                           const std::vector<Parameter>& parameters) {
  PIPEWRIGHT_TRY(Correction correction, fitter.fit(places, parameters));
  fit_memory(runs, before, places, correction);
  return correction;
}

}  // namespace

Result<Calibration> calibrate(const std::vector<MeasuredRun>& runs) {
  PIPEWRIGHT_CHECK(!runs.empty(), "nothing was measured");
  Calibration calibration;
  Fitter fitter(runs);
  Places all;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    all.push_back(run);
    calibration.has_memory = calibration.has_memory || runs[run].memory;
    PIPEWRIGHT_TRY(const Prediction made, predicted(runs[run], {}, true));
    calibration.before.push_back(made);
  }
  PIPEWRIGHT_TRY(calibration.fitted, chosen_parameters(fitter, runs.size()));
  PIPEWRIGHT_TRY(
      calibration.correction,
      fit_all(fitter, runs, calibration.before, all, calibration.fitted));
  for (const MeasuredRun& run : runs) {
    PIPEWRIGHT_TRY(const Prediction after,
                   predicted(run, calibration.correction, true));
    calibration.after.push_back(after);
  }
  if (runs.size() < 2) return calibration;
  calibration.left_out.resize(runs.size());
  for (std::size_t fold = 0; fold < fitter.num_folds(); ++fold) {
    PIPEWRIGHT_TRY(const Correction others,
                   fit_all(fitter, runs, calibration.before,
                           fitter.others(fold), calibration.fitted));
    for (std::size_t run : fitter.left_out(fold)) {
      PIPEWRIGHT_TRY(calibration.left_out[run],
                     predicted(runs[run], others, true));
    }
  }
  return calibration;
}

}  // namespace pipewright::cli
