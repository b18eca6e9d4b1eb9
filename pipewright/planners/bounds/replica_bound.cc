#include "pipewright/planners/bounds/replica_bound.h"

#include <algorithm>

#include "pipewright/base/infinity.h"
#include "pipewright/planners/bounds/islands.h"

namespace pipewright {
namespace {

// The layers with most parameters; to leave out the others loosens the bound,
// no more.
constexpr std::size_t kMostPivots = 12;
constexpr int kHalvings = 40;

// One layer, and of every other the widest path to it: bytes a sample of its
// narrowest edge; 0 where there is none.
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

struct Work {
  std::vector<double> backward;  // seconds a sample, on the fastest kind
  std::vector<double> update;
};

Work least_work(const std::vector<KindTimes>& kinds) {
  Work work;
  for (std::size_t l = 0; l < kinds[0].size(); ++l) {
    double backward = kInfinity, update = kInfinity;
    for (const KindTimes& kind : kinds) {
      backward = std::min(backward, kind[l].backward);
      update = std::min(update, kind[l].update);
    }
    work.backward.push_back(backward);
    work.update.push_back(update);
  }
  return work;
}

// Of one layer whose weights are on a to b islands.
struct Pivot {
  const Problem& problem;
  const Work& work;
  const Islands& islands;
  std::size_t layer;
  double bytes;
  std::vector<double> widths;

  // Whether the proof leaves room for a step of T seconds.
  bool allows(double T, int a, int b) const {
    const double ring = 2.0 * (a - 1) / a * bytes;  // a link's
    const double samples = problem.minibatch;
    double behind = 0;
    if (!is_asynchronous(problem.method))
      behind = work.backward[layer] * samples / (b * islands.most_devices) +
               work.update[layer];
    if (ring / islands.fastest + behind > T) return false;
    const double room = b * (T * islands.outside - ring);
    if (room < 0) return false;
    double load = 0;
    for (std::size_t m = 0; m < widths.size(); ++m) {
      const double left = widths[m] > 0 ? samples - room / widths[m] : 0;
      load += std::max(0.0, left) * work.backward[m];
    }
    return load <= T * b * islands.most_devices;
  }

  // The least of T that some number of islands allows; all numbers between a
  // power of two and the next at once.
  bool allows(double T) const {
    for (int a = 1; a <= islands.count; a *= 2)
      if (allows(T, a, std::min(islands.count, 2 * a - 1))) return true;
    return false;
  }

  double bound(double known) const {
    if (allows(known)) return known;
    double low = known, high = std::max(known, 1e-9);
    while (!allows(high) && high < 1e12) high *= 2;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (allows(middle) ? high : low) = middle;
    }
    return low;
  }
};

std::vector<std::size_t> heaviest(const Profile& profile) {
  std::vector<std::size_t> layers;
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    if (profile.parameter_bytes(LayerId(l)) > Bytes(0)) layers.push_back(l);
  std::stable_sort(layers.begin(), layers.end(),
                   [&](std::size_t a, std::size_t b) {
                     return profile.parameter_bytes(LayerId(a)) >
                            profile.parameter_bytes(LayerId(b));
                   });
  if (layers.size() > kMostPivots) layers.resize(kMostPivots);
  return layers;
}

}  // namespace

double replica_bound(const Problem& problem,
                     const std::vector<KindTimes>& kinds, double known) {
  const Profile& profile = *problem.profile;
  const Work work = least_work(kinds);
  const std::vector<double> gradients = least_output_bytes(problem);
  double bound = known;
  for (const Islands& islands : islands_of(*problem.cluster))
    for (std::size_t layer : heaviest(profile)) {
      const auto bytes =
          static_cast<double>(profile.parameter_bytes(LayerId(layer)).value());
      const Pivot pivot{problem, work,  islands,
                        layer,   bytes, widths_to(layer, profile, gradients)};
      bound = std::max(bound, pivot.bound(bound));
    }
  return bound;
}

}  // namespace pipewright
