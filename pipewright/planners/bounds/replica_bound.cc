#include "pipewright/planners/bounds/replica_bound.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/infinity.h"
#include "pipewright/planners/bounds/islands.h"

namespace pipewright {
namespace {

// Only the layers with the most parameters are tried, which may make the bound
// weaker but not wrong.
constexpr std::size_t kMaxPivots = 12;
constexpr int kBisections = 40;

// For every layer the width of the widest path between it and the pivot: the
// bytes per sample of the path's narrowest edge; 0 if there is no path.
std::vector<double> widths_to(std::size_t pivot, const Profile& profile,
                              const std::vector<double>& gradients) {
  std::vector<double> up(profile.layers.size(), 0), down = up;
  up[pivot] = down[pivot] = kInfinity;
  for (std::size_t l = pivot + 1; l-- > 0;)
    for (LayerId input : profile.layers[l].inputs) {
      double& width = up[input.index()];
      width = std::max(width, std::min(up[l], gradients[input.index()]));
    }
  for (std::size_t l = pivot + 1; l < down.size(); ++l)
    for (LayerId input : profile.layers[l].inputs)
      down[l] = std::max(
          down[l], std::min(down[input.index()], gradients[input.index()]));
  for (std::size_t l = 0; l < up.size(); ++l) up[l] = std::max(up[l], down[l]);
  return up;
}

// Seconds before the first forward, and the first backward, of a layer can
// start: one slice, in the least time that its operations take at any size,
// goes forward, and back to it.
struct FirstStarts {
  double forward = 0, backward = 0;
};

FirstStarts first_starts(std::size_t layer, const Profile& profile,
                         const KindTimes& shortest) {
  std::vector<double> forward(profile.layers.size(), 0), start = forward;
  for (std::size_t l = 0; l < forward.size(); ++l) {
    for (LayerId input : profile.layers[l].inputs)
      forward[l] = std::max(forward[l], forward[input.index()]);
    forward[l] += shortest[l].forward;
  }
  for (std::size_t l = forward.size(); l-- > layer;) {
    start[l] = std::max(start[l], forward[l]);
    for (LayerId input : profile.layers[l].inputs)
      start[input.index()] =
          std::max(start[input.index()], start[l] + shortest[l].input);
  }
  return {forward[layer] - shortest[layer].forward, start[layer]};
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

// The layer l of the header.
struct Pivot {
  const Problem& problem;
  const KindTimes& work;
  const Islands& islands;
  std::size_t layer;
  double bytes;
  double before;  // seconds of all devices together before the ring
  FirstStarts starts;
  double weights_sent;  // seconds: to a device without the layer's backward
  std::vector<double> widths;
  const std::vector<double>& kept;

  // What r devices do of the layer for all samples, from its first start on.
  struct OwnWork {
    double seconds, start;
  };

  // The ring's latency, and what comes before and after it. Either all devices
  // of the layer's forward have its backward, too, or one of them is sent the
  // weights.
  double around_ring(int a, int b) const {
    const double round = a > 1 ? 2 * islands.latency : 0;
    if (is_asynchronous(problem.method)) return round * (a - 1);
    const double samples = problem.minibatch;
    const OwnWork backward{work[layer].backward * samples, starts.backward};
    const OwnWork both{backward.seconds + work[layer].forward * samples,
                       starts.forward};
    const double most = double(b) * islands.max_devices;
    return std::min(least_around({both, backward}, round, a, most),
                    least_around({backward}, round, a, most) + weights_sent) +
           work[layer].update;
  }

  // At the number of devices r, of a to `most`, for which it takes least: the
  // work before the ring falls with r down to that of all devices; the latency
  // grows. A sum of these is least at an end, where the work of one kind and
  // the latency balance, or where two kinds of work take equally long.
  double least_around(const std::vector<OwnWork>& own, double round, double a,
                      double most) const {
    const double all = before / problem.cluster->num_devices();
    const auto at_devices = [&](double r) {
      double longest = all;
      for (const OwnWork& each : own)
        longest = std::max(longest, each.seconds / r + each.start);
      return longest + round * (r - 1);
    };
    std::vector<double> candidates = {a, most};
    for (const OwnWork& each : own) {
      if (all > each.start)
        candidates.push_back(each.seconds / (all - each.start));
      if (round > 0) candidates.push_back(std::sqrt(each.seconds / round));
      for (const OwnWork& other : own)
        if (other.start > each.start)
          candidates.push_back((each.seconds - other.seconds) /
                               (other.start - each.start));
    }
    double least = kInfinity;
    for (double r : candidates)
      least = std::min(least, at_devices(std::clamp(r, a, std::max(a, most))));
    return least;
  }

  // Whether a step of T seconds is possible with the layer on a to b islands.
  bool allows(double T, int a, int b) const {
    const double ring = 2.0 * (a - 1) / a * bytes;  // per link
    const double samples = problem.minibatch;
    if (ring / islands.fastest + around_ring(a, b) > T) return false;
    const double traffic = b * (T * islands.outside - ring);  // X
    if (traffic < 0) return false;
    double load = 0;
    for (std::size_t m = 0; m < widths.size(); ++m) {
      const double left = widths[m] > 0 ? samples - traffic / widths[m] : 0;
      load += std::max(0.0, left) * work[m].backward;
      const double apart = kept[m] > 0 ? 2 * traffic / kept[m] : samples;
      load += std::max(0.0, left - apart) * work[m].forward;
    }
    return load <= T * b * islands.max_devices;
  }

  // With any number of islands; large numbers that differ by less than a
  // quarter are checked together.
  bool allows(double T) const {
    for (int a = 1, next = 2; a <= islands.count; a = next) {
      next = std::max(a + 1, a * 5 / 4);
      if (allows(T, a, std::min(islands.count, next - 1))) return true;
    }
    return false;
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
  double fastest = 0, latency = kInfinity;  // of any link
  for (const Link& link : problem.cluster->links()) {
    fastest = std::max(fastest, link.bandwidth.value());
    latency = std::min(latency, link.latency.value());
  }
  double bound = known;
  for (const Islands& islands : islands_of(*problem.cluster))
    for (std::size_t layer : largest_layers(profile)) {
      const auto bytes =
          static_cast<double>(profile.parameter_bytes(LayerId(layer)).value());
      const double before =
          work_before_sum(layer, profile, work) * problem.minibatch;
      const Pivot pivot{problem,
                        work,
                        islands,
                        layer,
                        bytes,
                        before,
                        first_starts(layer, profile, shortest),
                        bytes / fastest + latency,
                        widths_to(layer, profile, gradients),
                        kept};
      bound = std::max(bound, pivot.bound(bound));
    }
  return bound;
}

}  // namespace pipewright
