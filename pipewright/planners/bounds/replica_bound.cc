#include "pipewright/planners/bounds/replica_bound.h"

#include <algorithm>

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

struct Work {
  std::vector<double> backward;  // seconds per sample, on the fastest kind
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

// The layer l of the header.
struct Pivot {
  const Problem& problem;
  const Work& work;
  const Islands& islands;
  std::size_t layer;
  double bytes;
  std::vector<double> widths;

  // Whether a step of T seconds is possible with the layer on a to b islands.
  bool allows(double T, int a, int b) const {
    const double ring = 2.0 * (a - 1) / a * bytes;  // per link
    const double samples = problem.minibatch;
    double before_ring = 0;
    if (!is_asynchronous(problem.method))
      before_ring = work.backward[layer] * samples / (b * islands.max_devices) +
                    work.update[layer];
    if (ring / islands.fastest + before_ring > T) return false;
    const double traffic = b * (T * islands.outside - ring);  // X
    if (traffic < 0) return false;
    double load = 0;
    for (std::size_t m = 0; m < widths.size(); ++m) {
      const double left = widths[m] > 0 ? samples - traffic / widths[m] : 0;
      load += std::max(0.0, left) * work.backward[m];
    }
    return load <= T * b * islands.max_devices;
  }

  // With any number of islands; numbers from a power of two to the next are
  // checked together.
  bool allows(double T) const {
    for (int a = 1; a <= islands.count; a *= 2)
      if (allows(T, a, std::min(islands.count, 2 * a - 1))) return true;
    return false;
  }

  double bound(double known) const {
    if (allows(known)) return known;
    double low = known, high = std::max(known, 1e-9);
    while (!allows(high) && high < 1e12) high *= 2;
    for (int i = 0; i < kBisections; ++i) {
      const double middle = (low + high) / 2;
      (allows(middle) ? high : low) = middle;
    }
    return low;
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
  const Work work = least_work(kinds);
  const std::vector<double> gradients = least_output_bytes(problem);
  double bound = known;
  for (const Islands& islands : islands_of(*problem.cluster))
    for (std::size_t layer : largest_layers(profile)) {
      const auto bytes =
          static_cast<double>(profile.parameter_bytes(LayerId(layer)).value());
      const Pivot pivot{problem, work,  islands,
                        layer,   bytes, widths_to(layer, profile, gradients)};
      bound = std::max(bound, pivot.bound(bound));
    }
  return bound;
}

}  // namespace pipewright
