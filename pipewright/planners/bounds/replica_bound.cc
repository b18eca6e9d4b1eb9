#include "pipewright/planners/bounds/replica_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "pipewright/base/infinity.h"
#include "pipewright/planners/bounds/islands.h"

namespace pipewright {
namespace {

// Only the layers with the most parameters are tried, which may make the bound
// weaker but not wrong.
constexpr std::size_t kMaxPivots = 12;
constexpr int kBisections = 40;
constexpr double kRounding = 1e-9;

// For every layer the width of the widest path between it and the pivot: the
// bytes per sample of the path's narrowest edge; 0 if there is no path.
struct PathWidths {
  std::vector<double> before, after;  // of layers before and after the pivot
  // Of layers before it, to an input that the pivot keeps for its backward.
  std::vector<double> to_kept;
};

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

// Seconds before the first forward, and the first backward, of a layer can
// start: one slice, in the least time that its operations take at any size,
// goes forward, and back to it.
struct FirstStarts {
  double forward = 0, backward = 0;
};

// When the forward of each layer can end first.
std::vector<double> first_ends(const Profile& profile,
                               const KindTimes& shortest) {
  std::vector<double> ends(profile.layers.size(), 0);
  for (std::size_t l = 0; l < ends.size(); ++l) {
    for (LayerId input : profile.layers[l].inputs)
      ends[l] = std::max(ends[l], ends[input.index()]);
    ends[l] += shortest[l].forward;
  }
  return ends;
}

FirstStarts first_starts(std::size_t layer, const Profile& profile,
                         const KindTimes& shortest,
                         const std::vector<double>& ends) {
  std::vector<double> start(ends.size(), 0);
  for (std::size_t l = ends.size(); l-- > layer;) {
    start[l] = std::max(start[l], ends[l]);
    for (LayerId input : profile.layers[l].inputs)
      start[input.index()] =
          std::max(start[input.index()], start[l] + shortest[l].input);
  }
  return {ends[layer] - shortest[layer].forward, start[layer]};
}

// The shortest times of slices of any size, not per sample.
KindTimes shortest_times(const Problem& problem) {
  KindTimes shortest(problem.profile->layers.size());
  const int kinds = static_cast<int>(problem.cluster->kinds().size());
  for (int k = 0; k < kinds; ++k)
    visit_least_times(problem, k, 1, largest_microbatch(problem),
                      [&](std::size_t l, const LayerTimes& times, int) {
                        shortest[l].forward = std::min(shortest[l].forward,
                                                       times.forward.value());
                        shortest[l].input = std::min(
                            shortest[l].input, times.backward_input.value());
                      });
  return shortest;
}

// Bytes per sample of the largest output that the backward of each layer reads:
// a kept input, or its own output.
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

// Seconds of a sum over r devices: (r - 1)/r times those of its bytes over a
// link, and log2 r times those of two messages (at most sum_rounds()).
struct SumTimes {
  double bytes = 0, latency = 0;
  double seconds(double r) const {
    return (r - 1) / r * bytes + std::log2(r) * latency;
  }
};

SumTimes sum_of(double bytes, double bandwidth, double latency) {
  return {2 * bytes / bandwidth, 2 * latency};
}

// What r devices do of a layer for all samples, from its first start on.
struct OwnWork {
  double seconds, start;

  // The smallest r for which the work and a sum end by time T, up to rounding,
  // or less: where (seconds - bytes) / r + latency log2 r, which falls until
  // its least value, comes down to what is left of T. Infinity: nowhere.
  double fewest_devices(const SumTimes& sum, double T) const {
    const double shared = seconds - sum.bytes;
    const double rest = T - start - sum.bytes;
    if (shared <= 0) return 0;
    if (rest <= 0) return kInfinity;
    const auto taken = [&](double r) {
      return shared / r + sum.latency * std::log2(r);
    };
    double low = 1;
    double high = sum.latency > 0
                      ? std::max(1.0, shared / sum.latency * std::numbers::ln2)
                      : shared / rest;
    if (taken(high) > rest * (1 + kRounding)) return kInfinity;
    for (int i = 0; i < kBisections && low < high; ++i) {
      const double middle = (low + high) / 2;
      (taken(middle) > rest ? low : high) = middle;
    }
    return low;
  }
};

// The layer l of the header.
struct Pivot {
  const Problem& problem;
  const KindTimes& work;
  const Islands& islands;
  std::size_t layer;
  double bytes;
  double before;  // seconds of all devices together before the sum
  FirstStarts starts;
  const std::vector<double>& first_ends;
  SumTimes sum_inside;  // of one island
  double weights_sent;  // seconds: to a device without the layer's backward
  PathWidths widths;
  const std::vector<double>& kept;

  // When the sum starts at the latest in a step of T seconds with the layer on
  // a to b islands; negative: there is no such step. All devices of its forward
  // have its backward, too, or one of them is sent the weights.
  double sum_start(double T, int a, int b) const {
    if (is_asynchronous(problem.method))
      return sum(b).seconds(a) <= T && has_time(T, T, a, b, 0) ? T : -1;
    const double samples = problem.minibatch;
    const double forwards = work[layer].forward * samples;
    const OwnWork backward{work[layer].backward * samples, starts.backward};
    const OwnWork both{backward.seconds + forwards, starts.forward};
    const double summed = T - work[layer].update;
    double latest = start_after({both, backward}, summed, a, b);
    if (!has_time(T, latest, a, b, forwards)) latest = -1;
    const double sent = start_after({backward}, summed - weights_sent, a, b);
    return sent > latest && has_time(T, sent, a, b, 0) ? sent : latest;
  }

  SumTimes sum(int num_islands) const {
    return num_islands == 1 ? sum_inside
                            : sum_of(bytes, islands.fastest, islands.latency);
  }

  // When the sum starts at the latest to end by time T; negative: earlier than
  // what comes before it allows. With the fewest devices: their work takes
  // longer with fewer, and the sum with more.
  double start_after(const std::vector<OwnWork>& own, double T, int a,
                     int b) const {
    double r = a;
    for (const OwnWork& each : own)
      r = std::max(r, std::ceil(each.fewest_devices(sum(b), T) - kRounding));
    if (r > double(b) * islands.max_devices) return -1;
    const double start = T - sum(b).seconds(r);
    double longest = before / problem.cluster->num_devices();
    for (const OwnWork& each : own)
      longest = std::max(longest, each.seconds / r + each.start);
    return longest > start * (1 + kRounding) ? -1 : start;
  }

  // Whether the devices of a to b islands have time for all that is not on
  // others, for what the layer's backwards need before its sum starts, and for
  // `forwards` seconds of the layer itself.
  bool has_time(double T, double start, int a, int b, double forwards) const {
    const double in_sum = 2.0 * (a - 1) / a * bytes;            // per link
    const double traffic = b * (T * islands.outside - in_sum);  // X
    if (start < 0 || traffic < 0) return false;
    const double in = b * islands.outside;  // bytes per second
    const double samples = problem.minibatch;
    const auto samples_here = [&](double passed, double width) {
      return width > 0 ? std::max(0.0, samples - passed / width) : 0;
    };
    double before_sum = work[layer].backward * samples + forwards;
    double load = forwards;
    for (std::size_t m = 0; m < work.size(); ++m) {
      const double backwards = std::max(
          samples_here(traffic, std::max(widths.before[m], widths.after[m])),
          samples_here(std::min(traffic, in * start), widths.after[m]));
      const double apart = kept[m] > 0 ? 2 * traffic / kept[m] : samples;
      const double first = is_asynchronous(problem.method) ? 0 : first_ends[m];
      const double needed =
          samples_here(in * std::max(0.0, start - first), widths.to_kept[m]);
      load += backwards * work[m].backward;
      if (m == layer && forwards > 0) continue;
      load += std::max(backwards - apart, needed) * work[m].forward;
      before_sum += needed * work[m].forward;
    }
    const double devices = double(b) * islands.max_devices;
    return load <= T * devices &&
           before_sum <= start * devices * (1 + kRounding);
  }

  // With any number of islands; large numbers that differ by less than a
  // quarter are checked together.
  double sum_start(double T) const {
    double latest = -1;
    for (int a = 1, next = 2; a <= islands.count; a = next) {
      next = std::max(a + 1, a * 5 / 4);
      latest =
          std::max(latest, sum_start(T, a, std::min(islands.count, next - 1)));
    }
    return latest;
  }
};

// The pivots of all kinds of islands, and what they know of each other.
struct Pivots {
  const Problem& problem;
  const KindTimes& work;
  std::vector<Pivot> all;

  // Whether each sum can start in time, and before some of them all devices
  // have time for what comes before these.
  bool allows(double T) const {
    std::map<std::size_t, double> starts;  // the latest of each layer
    for (const Pivot& pivot : all) {
      const double start = pivot.sum_start(T);
      if (start < 0) return false;
      const auto [known, is_new] = starts.try_emplace(pivot.layer, start);
      if (!is_new) known->second = std::min(known->second, start);
    }
    return is_asynchronous(problem.method) || have_time(starts);
  }

  bool have_time(const std::map<std::size_t, double>& starts) const {
    std::vector<std::pair<double, std::size_t>> sums;
    for (const auto& [layer, start] : starts) sums.emplace_back(start, layer);
    std::sort(sums.begin(), sums.end());
    std::vector<std::size_t> layers;
    for (const auto& [start, layer] : sums) {
      layers.push_back(layer);
      const double before =
          work_before_sums(layers, *problem.profile, work) * problem.minibatch;
      const double time = start * problem.cluster->num_devices();
      if (before > time * (1 + kRounding)) return false;
    }
    return true;
  }

  double bound(double known) const {
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
};

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

}  // namespace

double replica_bound(const Problem& problem,
                     const std::vector<KindTimes>& kinds, double known) {
  const Profile& profile = *problem.profile;
  const KindTimes work = least_work(kinds);
  const KindTimes shortest = shortest_times(problem);
  const std::vector<double> gradients = least_output_bytes(problem);
  const std::vector<double> kept = kept_bytes(profile, gradients);
  const std::vector<double> ends = first_ends(profile, shortest);
  double fastest = 0, latency = kInfinity;  // of any link
  for (const Link& link : problem.cluster->links()) {
    fastest = std::max(fastest, link.bandwidth.value());
    latency = std::min(latency, link.latency.value());
  }
  const std::vector<Islands> kinds_of_islands = islands_of(*problem.cluster);
  Pivots pivots{problem, work, {}};
  for (const Islands& islands : kinds_of_islands)
    for (std::size_t layer : largest_layers(profile)) {
      const auto bytes =
          static_cast<double>(profile.parameter_bytes(LayerId(layer)).value());
      const double before =
          work_before_sums({layer}, profile, work) * problem.minibatch;
      pivots.all.push_back({problem, work, islands, layer, bytes, before,
                            first_starts(layer, profile, shortest, ends), ends,
                            sum_of(bytes, fastest, latency),
                            bytes / fastest + latency,
                            widths_to(layer, profile, gradients), kept});
    }
  return pivots.bound(known);
}

}  // namespace pipewright
