#include "cli/calibrate/calibration.h"

#include <algorithm>

#include "cli/calibrate/memory_fit.h"
#include "cli/calibrate/step_fit.h"
#include "pipewright/base/check.h"

namespace pipewright::cli {
namespace {

// Of two parameters that explain about as much the first is fitted: a later one
// must lower the error by this share more.
constexpr double kLeastGain = 0.05;
// An error per run, squared, below which no more parameters are looked for.
constexpr double kGoodEnough = 1e-3 * 1e-3;

Result<double> left_out_error(StepFit& fit, const Places& places,
                              const ParameterChoice& choice) {
  double sum = 0;
  for (std::size_t group = 0; group < num_groups(places); ++group) {
    const Split parts = split(places, group);
    PIPEWRIGHT_TRY(const Correction fitted, fit.fitted(parts.others, choice));
    PIPEWRIGHT_TRY(const double off, fit.error(parts.group, fitted));
    sum += off;
  }
  return sum;
}

// Leaving runs out takes longer than one fit to all of them, which has the
// lower error. Where even that is not clearly lower than before, it is the
// answer.
Result<double> error_with(StepFit& fit, const Places& places,
                          const ParameterChoice& choice, double before) {
  PIPEWRIGHT_TRY(const Correction fitted, fit.fitted(places, choice));
  PIPEWRIGHT_TRY(const double error, fit.error(places, fitted));
  if (!is_clearly_lower(error, before)) return error;
  return left_out_error(fit, places, choice);
}

struct ScoredChoice {
  ParameterChoice choice;
  double error = 0;  // left out
};

// The choice with one parameter more; nothing where none is worth it.
Result<std::optional<ScoredChoice>> next_choice(StepFit& fit,
                                                const Places& places,
                                                const ScoredChoice& now,
                                                double good_enough) {
  std::optional<ScoredChoice> best;
  for (Parameter parameter : kParameters) {
    const std::vector<Parameter>& fitted = now.choice.parameters;
    if (std::find(fitted.begin(), fitted.end(), parameter) != fitted.end())
      continue;
    ScoredChoice tried = now;
    tried.choice.parameters.push_back(parameter);
    PIPEWRIGHT_TRY(tried.error,
                   error_with(fit, places, tried.choice, now.error));
    tried.error = std::max(tried.error, good_enough);
    if (!is_clearly_lower(tried.error, now.error)) continue;
    if (best && tried.error > best->error * (1 - kLeastGain)) continue;
    best = tried;
  }
  return best;
}

// One parameter after the other.
Result<ScoredChoice> chosen_singles(StepFit& fit, const Places& places,
                                    double good_enough) {
  ScoredChoice chosen;
  PIPEWRIGHT_TRY(chosen.error, left_out_error(fit, places, {}));
  while (chosen.choice.parameters.size() + 1 < places.size() &&
         chosen.error > good_enough) {
    PIPEWRIGHT_TRY(const std::optional<ScoredChoice> next,
                   next_choice(fit, places, chosen, good_enough));
    if (!next) break;
    chosen = *next;
  }
  return chosen;
}

// The error that a pair must reach to be better than the singles, of which
// there may be none: each parameter more must be worth it.
double error_for_pair(const ScoredChoice& singles) {
  switch (singles.choice.parameters.size()) {
    case 0:
      return singles.error / 4;
    case 1:
      return singles.error / 2;
    default:
      return singles.error * (1 - kLeastGain);
  }
}

struct PairFit {
  ParameterChoice choice;
  double error = 0;  // of the runs that it is fitted to

  auto operator<=>(const PairFit& other) const { return error <=> other.error; }
};

// Those whose fit to all runs is good enough, the best ones first.
Result<std::vector<PairFit>> likely_pairs(StepFit& fit, const Places& places,
                                          double limit) {
  constexpr std::size_t kMaxPairs = 4;
  std::vector<PairFit> pairs;
  for (std::size_t i = 0; i < kParameters.size(); ++i)
    for (std::size_t j = i + 1; j < kParameters.size(); ++j) {
      PairFit pair{{{kParameters[i], kParameters[j]}, true}};
      PIPEWRIGHT_TRY(const Correction fitted, fit.fitted(places, pair.choice));
      PIPEWRIGHT_TRY(pair.error, fit.error(places, fitted));
      if (pair.error <= limit) pairs.push_back(pair);
    }
  std::stable_sort(pairs.begin(), pairs.end());
  pairs.resize(std::min(pairs.size(), kMaxPairs));
  return pairs;
}

// The singles, or two parameters at once: a slow link and transfers that block
// explain together what neither explains alone.
Result<ScoredChoice> with_pairs(StepFit& fit, const Places& places,
                                ScoredChoice chosen) {
  const double limit = error_for_pair(chosen);
  PIPEWRIGHT_TRY(const std::vector<PairFit> pairs,
                 likely_pairs(fit, places, limit));
  for (const PairFit& pair : pairs) {
    PIPEWRIGHT_TRY(const double error,
                   left_out_error(fit, places, pair.choice));
    if (error <= limit && error < chosen.error) chosen = {pair.choice, error};
  }
  return chosen;
}

Result<ParameterChoice> chosen_parameters(StepFit& fit, const Places& places) {
  constexpr std::size_t kLeastRunsForPairs = 4;
  if (places.size() < 2) return ParameterChoice{{Parameter::LayerOverhead}};
  const double good_enough = kGoodEnough * static_cast<double>(places.size());
  PIPEWRIGHT_TRY(ScoredChoice chosen, chosen_singles(fit, places, good_enough));
  if (chosen.error > good_enough && places.size() >= kLeastRunsForPairs) {
    PIPEWRIGHT_TRY(chosen, with_pairs(fit, places, std::move(chosen)));
  }
  return chosen.choice;
}

struct Fitted {
  Correction correction;
  ParameterChoice choice;
  bool has_memory = false;
};

// Chooses and fits, by these runs alone.
Result<Fitted> fitted_to(StepFit& fit, const std::vector<MeasuredRun>& runs,
                         const std::vector<Prediction>& before,
                         const Places& places) {
  Fitted fitted;
  PIPEWRIGHT_TRY(fitted.choice, chosen_parameters(fit, places));
  PIPEWRIGHT_TRY(fitted.correction, fit.fitted(places, fitted.choice));
  if (const auto memory = memory_fit(runs, before, places)) {
    fitted.has_memory = true;
    fitted.correction.base_memory =
        Bytes(static_cast<std::int64_t>(memory->base));
    fitted.correction.fragmentation = memory->fragmentation;
  }
  return fitted;
}

Places all_of(const std::vector<MeasuredRun>& runs) {
  Places places;
  for (std::size_t run = 0; run < runs.size(); ++run) places.push_back(run);
  return places;
}

Result<std::vector<Prediction>> predictions_with(
    const std::vector<MeasuredRun>& runs, const Correction& correction) {
  std::vector<Prediction> predictions;
  for (const MeasuredRun& run : runs) {
    PIPEWRIGHT_TRY(const Prediction made, predicted(run, correction, true));
    predictions.push_back(made);
  }
  return predictions;
}

// Each run with what is found without its group.
Result<std::vector<Prediction>> left_out_predictions(
    StepFit& fit, const std::vector<MeasuredRun>& runs,
    const std::vector<Prediction>& before,
    const std::function<void(double share)>& progress) {
  const Places all = all_of(runs);
  std::vector<Prediction> predictions(runs.size());
  const std::size_t groups = num_groups(all);
  for (std::size_t group = 0; group < groups; ++group) {
    // The fit to all runs is behind.
    progress(static_cast<double>(group + 1) / static_cast<double>(groups + 1));
    const Split parts = split(all, group);
    PIPEWRIGHT_TRY(const Fitted others,
                   fitted_to(fit, runs, before, parts.others));
    for (std::size_t run : parts.group) {
      PIPEWRIGHT_TRY(predictions[run],
                     predicted(runs[run], others.correction, true));
    }
  }
  return predictions;
}

}  // namespace

Result<Calibration> calibrate(
    const std::vector<MeasuredRun>& runs,
    const std::function<void(double share)>& progress) {
  PIPEWRIGHT_CHECK(!runs.empty(), "nothing was measured");
  Calibration calibration;
  StepFit fit(runs);
  const Places all = all_of(runs);
  PIPEWRIGHT_TRY(calibration.before, predictions_with(runs, {}));
  PIPEWRIGHT_TRY(const Fitted fitted,
                 fitted_to(fit, runs, calibration.before, all));
  calibration.correction = fitted.correction;
  calibration.fitted = fitted.choice.parameters;
  calibration.has_memory = fitted.has_memory;
  for (Parameter parameter : fitted.choice.parameters)
    if (fit.is_at_limit(all, parameter, fitted.correction))
      calibration.at_limit.push_back(parameter);
  PIPEWRIGHT_TRY(calibration.after, predictions_with(runs, fitted.correction));
  if (runs.size() < 2) return calibration;
  calibration.num_groups = num_groups(all);
  PIPEWRIGHT_TRY(calibration.left_out,
                 left_out_predictions(fit, runs, calibration.before, progress));
  return calibration;
}

}  // namespace pipewright::cli
