#include "pipewright/planners/bounds/pivots.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

// Only the layers with the most parameters are tried, which may make the bound
// weaker but not wrong.
constexpr std::size_t kMaxPivots = 12;
constexpr int kBisections = 40;

std::vector<std::size_t> largest_layers(const Profile& profile) {
  std::vector<std::size_t> layers;
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    if (profile.parameter_bytes(LayerId(l)) > Bytes(0)) layers.push_back(l);
  std::stable_sort(layers.begin(), layers.end(),
                   [&](std::size_t a, std::size_t b) {
                     return profile.parameter_bytes(LayerId(a)) >
                            profile.parameter_bytes(LayerId(b));
                   });
  if (layers.size() > kMaxPivots) layers.resize(kMaxPivots);
  return layers;
}

bool have_common_parameter(const ProfileLayer& a, const ProfileLayer& b) {
  return std::any_of(
      a.parameters.begin(), a.parameters.end(), [&](ParameterId id) {
        return std::find(b.parameters.begin(), b.parameters.end(), id) !=
               b.parameters.end();
      });
}

// The sums of the pivots of one kind of islands in a step of T seconds.
class StepSums {
 public:
  StepSums(const PivotCosts& costs, const std::vector<Pivot>& pivots, double T)
      : costs_(costs), pivots_(pivots), T_(T) {
    const Apart none(costs.work.size(), false);
    for (const Pivot& pivot : pivots) {
      sums_.push_back(pivot.sum(T, none));
      if (sums_.back().latest < 0) return;
    }
  }

  // Counts pivots as apart whose sums do not fit on one card.
  void separate() {
    std::vector<Apart> apart;
    for (std::size_t i = 0; i < pivots_.size(); ++i)
      apart.push_back(apart_from(i));
    for (std::size_t i = 0; i < pivots_.size(); ++i)
      if (std::find(apart[i].begin(), apart[i].end(), true) != apart[i].end())
        sums_[i] = pivots_[i].sum(T_, apart[i]);
  }

  bool all_start() const {
    return std::none_of(sums_.begin(), sums_.end(),
                        [](const PivotSum& sum) { return sum.latest < 0; });
  }

  // The latest start of each pivot's sum, or the earlier one that is known.
  void add_to(std::map<std::size_t, double>& starts) const {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      double& start =
          starts.try_emplace(pivots_[i].layer(), kInfinity).first->second;
      start = std::min(start, sums_[i].latest);
    }
  }

  // Seconds before `end` that devices have nothing to do of what comes before
  // some sums, because a pivot on their island is summed before.
  double most_idle(const WorkBeforeSums& before, double end) const {
    double most = 0;
    for (std::size_t i = 0; i < pivots_.size(); ++i)
      if (sums_[i].fewest > 1 && sums_[i].latest < end)
        most = std::max(most, idle(i, before, end));
    return most;
  }

 private:
  double on_card(std::size_t i) const {
    return pivots_[i].on_card(sums_[i].fewest);
  }

  // By when the first of two sums starts if an island has both.
  double first_start(std::size_t a, std::size_t b) const {
    const auto& layers = costs_.problem.profile->layers;
    const Pivot &one = pivots_[a], &other = pivots_[b];
    if (sums_[a].fewest < 2 || sums_[b].fewest < 2 ||
        have_common_parameter(layers[one.layer()], layers[other.layer()]))
      return kInfinity;
    return T_ - std::min(one.update(), other.update()) - on_card(a) -
           on_card(b);
  }

  Apart apart_from(std::size_t pivot) const {
    Apart apart(costs_.work.size(), false);
    for (std::size_t i = 0; i < pivots_.size(); ++i) {
      const double earliest =
          std::min(pivots_[pivot].earliest(), pivots_[i].earliest());
      apart[pivots_[i].layer()] =
          i != pivot && earliest > first_start(pivot, i) + T_ * kRounding;
    }
    return apart;
  }

  // What the devices of the pivot's islands may do after its sum has started:
  // not what comes before it, nor backwards of layers whose sums come first.
  struct Later {
    double any = 0;  // seconds
    // By when the pivot's sum starts if they do backwards of another pivot, and
    // their seconds.
    std::vector<std::pair<double, double>> backwards;

    double after(double start) const {
      double seconds = any;
      for (const auto& [latest, more] : backwards)
        if (start <= latest) seconds += more;
      return seconds;
    }
  };

  Later later(std::size_t pivot, const WorkBeforeSums& before) const {
    const WorkBeforeSums& own = pivots_[pivot].work_before();
    std::vector<double> latest(costs_.work.size(), kInfinity);
    for (std::size_t i = 0; i < pivots_.size(); ++i)
      if (i != pivot) latest[pivots_[i].layer()] = first_start(pivot, i);
    Later later;
    const double samples = costs_.problem.minibatch;
    for (std::size_t l = 0; l < latest.size(); ++l) {
      const LeastTimes& work = costs_.work[l];
      if (before.forward[l] && !own.forward[l])
        later.any += work.forward * samples;
      double backward = 0;
      if (before.input[l] && !own.input[l]) backward += work.input;
      if (before.weights[l] && !own.weights[l])
        backward += work.backward - work.input;
      if (latest[l] == kInfinity)
        later.any += backward * samples;
      else if (backward > 0)
        later.backwards.emplace_back(latest[l], backward * samples);
    }
    return later;
  }

  // The least over all starts of the pivot's sum. Between two at which
  // something changes, later ones leave less.
  double idle(std::size_t pivot, const WorkBeforeSums& before,
              double end) const {
    const Later work = later(pivot, before);
    const Pivot& of = pivots_[pivot];
    const auto [latest, fewest] = sums_[pivot];
    std::vector<double> starts = {latest, of.latest_to_send(T_, fewest)};
    for (const auto& [start, seconds] : work.backwards) starts.push_back(start);
    double least = kInfinity;
    for (const double start : starts) {
      if (start > latest || start < of.earliest() * (1 - kRounding)) continue;
      const double devices = std::max(double(fewest) * of.islands().min_devices,
                                      of.fewest_devices(T_, start, fewest));
      least = std::min(least, devices * (end - start) - work.after(start));
    }
    return least;
  }

  const PivotCosts& costs_;
  const std::vector<Pivot>& pivots_;
  const double T_;
  std::vector<PivotSum> sums_;
};

// Seconds that all devices together are idle until `end`, of what comes before
// some sums.
using Idle = std::function<double(const WorkBeforeSums&, double end)>;

// Whether all devices have time for what comes before any of the sums.
bool have_time_before(const PivotCosts& costs,
                      const std::vector<StepSums>& steps, const Idle& idle) {
  std::map<std::size_t, double> latest;
  for (const StepSums& step : steps) step.add_to(latest);
  std::vector<std::pair<double, std::size_t>> sums;
  for (const auto& [layer, start] : latest) sums.emplace_back(start, layer);
  std::sort(sums.begin(), sums.end());
  std::vector<std::size_t> layers;
  for (const auto& [start, layer] : sums) {
    layers.push_back(layer);
    const WorkBeforeSums before = before_sums(layers, *costs.problem.profile);
    const double work = before.seconds(costs.work) * costs.problem.minibatch;
    const double time = start * costs.problem.cluster->num_devices();
    if (work + idle(before, start) > time * (1 + kRounding)) return false;
  }
  return true;
}

}  // namespace

Pivots::Pivots(const Problem& problem, const std::vector<KindTimes>& kinds)
    : costs_(problem, kinds), kinds_of_islands_(islands_of(*problem.cluster)) {
  const std::vector<std::size_t> layers = largest_layers(*problem.profile);
  for (const Islands& islands : kinds_of_islands_) {
    pivots_.emplace_back();
    for (std::size_t layer : layers)
      pivots_.back().emplace_back(costs_, islands, layer);
  }
}

bool Pivots::have_time(double T) const {
  std::vector<StepSums> steps;
  for (const std::vector<Pivot>& pivots : pivots_) {
    steps.emplace_back(costs_, pivots, T);
    if (!steps.back().all_start()) return false;
  }
  const auto none = [](const WorkBeforeSums&, double) { return 0.0; };
  return is_asynchronous(costs_.problem.method) ||
         have_time_before(costs_, steps, none);
}

bool Pivots::fit_cards(double T) const {
  if (is_asynchronous(costs_.problem.method)) return true;
  std::vector<StepSums> steps;
  for (const std::vector<Pivot>& pivots : pivots_) {
    steps.emplace_back(costs_, pivots, T);
    if (!steps.back().all_start()) return false;
    steps.back().separate();
    if (!steps.back().all_start()) return false;
  }
  return have_time_before(
      costs_, steps, [&](const WorkBeforeSums& before, double end) {
        double most = 0;
        for (const StepSums& step : steps)
          most = std::max(most, step.most_idle(before, end));
        return most;
      });
}

double least_step(double known, const std::function<bool(double)>& allows) {
  if (allows(known)) return known;
  // Between powers of two, so that rounding does not depend on `known`.
  double high = std::exp2(std::ceil(std::log2(std::max(known, 1e-9))));
  while (!allows(high) && high < 1e12) high *= 2;
  double low = high / 2;
  for (int i = 0; i < kBisections; ++i) {
    const double middle = (low + high) / 2;
    (allows(middle) ? high : low) = middle;
  }
  return std::max(known, low);
}

}  // namespace pipewright
