#include "pipewright/planners/bounds/pivot.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

constexpr int kHalvings = 40;

// Extends paths that end at the pivot to all layers before it.
void extend_paths(std::size_t pivot, const Profile& profile,
                  const std::vector<double>& outputs,
                  std::vector<double>& widths) {
  for (std::size_t l = pivot; l-- > 0;)
    for (LayerId input : profile.layers[l].inputs) {
      double& width = widths[input.index()];
      width = std::max(width, std::min(widths[l], outputs[input.index()]));
    }
}

PathWidths widths_to(std::size_t pivot, const Profile& profile,
                     const std::vector<double>& outputs) {
  const std::vector<double> none(profile.layers.size(), 0);
  PathWidths widths{none, none, none};
  const ProfileLayer& layer = profile.layers[pivot];
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    const std::size_t input = layer.inputs[i].index();
    widths.before[input] = outputs[input];
    if (layer.keeps_input[i]) widths.to_kept[input] = outputs[input];
  }
  extend_paths(pivot, profile, outputs, widths.before);
  extend_paths(pivot, profile, outputs, widths.to_kept);
  std::vector<double>& after = widths.after;
  after[pivot] = kInfinity;
  for (std::size_t l = pivot + 1; l < after.size(); ++l)
    for (LayerId input : profile.layers[l].inputs)
      after[l] = std::max(
          after[l], std::min(after[input.index()], outputs[input.index()]));
  return widths;
}

std::vector<double> kept_bytes(const Profile& profile,
                               const std::vector<double>& outputs) {
  std::vector<double> kept(profile.layers.size(), 0);
  for (std::size_t l = 0; l < kept.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    if (layer.keeps_output) kept[l] = outputs[l];
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i])
        kept[l] = std::max(kept[l], outputs[layer.inputs[i].index()]);
  }
  return kept;
}

FirstTimes first_or_zero(const Problem& problem) {
  if (!is_asynchronous(problem.method)) return first_times(problem);
  const std::vector<double> zero(problem.profile->layers.size(), 0);
  return {zero, zero, zero};
}

SumTimes sum_of(double bytes, double bandwidth, double latency) {
  return {2 * bytes / bandwidth, 2 * latency};
}

double bytes_of(const Problem& problem, std::size_t layer) {
  return static_cast<double>(
      problem.profile->parameter_bytes(LayerId(layer)).value());
}

}  // namespace

PivotCosts::PivotCosts(const Problem& made_for,
                       const std::vector<KindTimes>& kinds)
    : problem(made_for),
      work(least_work(kinds)),
      first(first_or_zero(problem)),
      outputs(least_output_bytes(problem)),
      kept(kept_bytes(*problem.profile, outputs)),
      latency(kInfinity) {
  for (const Link& link : problem.cluster->links()) {
    fastest = std::max(fastest, link.bandwidth.value());
    latency = std::min(latency, link.latency.value());
  }
}

double SumTimes::seconds(double r) const {
  return (r - 1) / r * bytes + std::log2(r) * latency;
}

// Where (seconds - bytes) / r + latency log2 r, which falls until its least
// value, comes down to what is left of T.
double OwnWork::fewest_devices(const SumTimes& sum, double T,
                               double least) const {
  const double shared = seconds - sum.bytes;
  const double rest = T - start - sum.bytes;
  if (shared <= 0) return least;
  if (rest <= 0) return kInfinity;
  const auto taken = [&](double r) {
    return shared / r + sum.latency * std::log2(r);
  };
  double low = 1;
  double high = sum.latency > 0
                    ? std::max(1.0, shared / sum.latency * std::numbers::ln2)
                    : shared / rest;
  if (taken(high) > rest * (1 + kRounding)) return kInfinity;
  if (least >= high || taken(least) <= rest) return least;
  for (int i = 0; i < kHalvings && low < high; ++i) {
    const double middle = (low + high) / 2;
    (taken(middle) > rest ? low : high) = middle;
  }
  return std::max(low, least);
}

double OwnWork::fewest_devices(double T) const {
  const double rest = T * (1 + kRounding) - start;
  if (seconds <= 0) return 0;
  return rest > 0 ? seconds / rest : kInfinity;
}

Pivot::Pivot(const PivotCosts& costs, const Islands& islands, std::size_t layer)
    : costs_(costs),
      islands_(islands),
      layer_(layer),
      bytes_(bytes_of(costs.problem, layer)),
      work_before_(before_sums({layer}, *costs.problem.profile)),
      before_(work_before_.seconds(costs.work) * costs.problem.minibatch /
              costs.problem.cluster->num_devices()),
      weights_sent_(bytes_ / costs.fastest + costs.latency),
      widths_(widths_to(layer, *costs.problem.profile, costs.outputs)) {}

double Pivot::on_card(int num_islands) const {
  return 2.0 * (num_islands - 1) / num_islands * bytes_ / islands_.outside;
}

OwnWork Pivot::backwards() const {
  return {costs_.work[layer_].backward * costs_.problem.minibatch,
          costs_.first.backward_starts[layer_]};
}

OwnWork Pivot::all_work() const {
  return {backwards().seconds +
              costs_.work[layer_].forward * costs_.problem.minibatch,
          costs_.first.forward_starts[layer_]};
}

double Pivot::latest_to_send(double T, int num_islands) const {
  return T - on_card(num_islands) - update() - bytes_ / islands_.fastest;
}

double Pivot::fewest_devices(double T, double start, int num_islands) const {
  const bool may_send = start <= latest_to_send(T, num_islands);
  return (may_send ? backwards() : all_work()).fewest_devices(start);
}

SumTimes Pivot::sum_times(int num_islands) const {
  return num_islands == 1 ? sum_of(bytes_, costs_.fastest, costs_.latency)
                          : sum_of(bytes_, islands_.fastest, islands_.latency);
}

// When the sum starts at the latest in a step of T seconds with the layer on a
// to b islands; negative: there is no such step. All devices of its forward
// have its backward, too, or one of them is sent the weights.
double Pivot::latest_start(double T, int a, int b, const Apart& apart) const {
  if (is_asynchronous(costs_.problem.method))
    return sum_times(b).seconds(a) <= T && has_time(T, T, a, b, 0, apart) ? T
                                                                          : -1;
  const OwnWork backward = backwards(), all = all_work();
  const double summed = T - update();
  double latest = start_after({all, backward}, summed, a, b);
  if (!has_time(T, latest, a, b, all.seconds - backward.seconds, apart))
    latest = -1;
  const double sent = start_after({backward}, summed - weights_sent_, a, b);
  return sent > latest && has_time(T, sent, a, b, 0, apart) ? sent : latest;
}

// The same if the sum waits for nothing, or later: quick to compute.
double Pivot::start_without_work(double T, int a, int b) const {
  if (is_asynchronous(costs_.problem.method)) return T;
  return T - update() - sum_times(b).seconds(a);
}

// When the sum starts at the latest to end by time T; negative: earlier than
// what comes before it allows. With the fewest devices: their work takes longer
// with fewer, and the sum with more.
double Pivot::start_after(const std::vector<OwnWork>& own, double T, int a,
                          int b) const {
  const SumTimes sum = sum_times(b);
  double r = a;
  for (const OwnWork& each : own)
    r = std::ceil(each.fewest_devices(sum, T, r) - kRounding);
  if (r > double(b) * islands_.max_devices) return -1;
  const double start = T - sum.seconds(r);
  double longest = before_;
  for (const OwnWork& each : own)
    longest = std::max(longest, each.seconds / r + each.start);
  return longest > start * (1 + kRounding) ? -1 : start;
}

// Whether the devices of a to b islands have time for all that is not on
// others, for what the layer's backwards need before its sum starts, and for
// `forwards` seconds of the layer itself.
bool Pivot::has_time(double T, double start, int a, int b, double forwards,
                     const Apart& apart) const {
  const KindTimes& work = costs_.work;
  const double in_sum = 2.0 * (a - 1) / a * bytes_;            // per link
  const double traffic = b * (T * islands_.outside - in_sum);  // X
  if (start < 0 || traffic < 0) return false;
  // Bytes that come in between some time and the sum.
  const auto in_since = [&](double seconds) {
    return b * islands_.outside * std::max(0.0, start - seconds);
  };
  const double samples = costs_.problem.minibatch;
  const auto samples_here = [&](double passed, double width) {
    return width > 0 ? std::max(0.0, samples - passed / width) : 0;
  };
  double before_sum = backwards().seconds + forwards;
  double load = forwards;
  for (std::size_t m = 0; m < work.size(); ++m) {
    const double came_in = in_since(costs_.first.backward_starts[m]);
    const double backward = std::max(
        samples_here(traffic, std::max(widths_.before[m], widths_.after[m])),
        samples_here(std::min(traffic, came_in), widths_.after[m]));
    if (apart[m] && backward > samples * kRounding) return false;
    const double elsewhere =
        costs_.kept[m] > 0 ? 2 * traffic / costs_.kept[m] : samples;
    const double needed = samples_here(in_since(costs_.first.forward_ends[m]),
                                       widths_.to_kept[m]);
    load += backward * work[m].backward;
    if (m == layer_ && forwards > 0) continue;
    load += std::max(backward - elsewhere, needed) * work[m].forward;
    before_sum += needed * work[m].forward;
  }
  const double devices = double(b) * islands_.max_devices;
  return load <= T * devices && before_sum <= start * devices * (1 + kRounding);
}

// With any number of islands; large numbers that differ by less than a quarter
// are checked together first.
PivotSum Pivot::sum(double T, const Apart& apart) const {
  PivotSum sum;
  for (int a = 1, next = 2; a <= islands_.count; a = next) {
    next = std::max(a + 1, a * 5 / 4);
    improve(sum, T, a, std::min(islands_.count, next - 1), apart);
  }
  return sum;
}

// By a to b islands, if some of these numbers let the sum start later.
void Pivot::improve(PivotSum& sum, double T, int a, int b,
                    const Apart& apart) const {
  if (start_without_work(T, a, b) <= sum.latest) return;
  const double start = latest_start(T, a, b, apart);
  if (start <= sum.latest) return;
  if (a < b) {
    const int middle = a + (b - a) / 2;
    improve(sum, T, a, middle, apart);
    improve(sum, T, middle + 1, b, apart);
    return;
  }
  if (sum.latest < 0) sum.fewest = a;
  sum.latest = start;
}

}  // namespace pipewright
