#include "pipewright/planners/bounds/bounds.h"

#include <algorithm>
#include <limits>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/bounds/card_bound.h"
#include "pipewright/planners/bounds/forced_times.h"
#include "pipewright/planners/bounds/least_times.h"
#include "pipewright/planners/bounds/replica_bound.h"
#include "pipewright/planners/bounds/slice_bound.h"

namespace pipewright {
namespace {

double seconds_of(const LeastTimes& layer, int samples) {
  return (layer.forward + layer.backward) * samples + layer.update;
}

// By linear programming duality: if kind k has price p[k], and the prices of
// all devices add up to 1, then no step is shorter than the cost of all layers,
// each on the kind where it is cheapest. A forward and its backward may be on
// different kinds.
double work_at_prices(const std::vector<KindTimes>& kinds,
                      const std::vector<double>& prices, int samples) {
  double sum = 0;
  for (std::size_t l = 0; l < kinds[0].size(); ++l) {
    double forward = kInfinity, backward = kInfinity;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const LeastTimes& layer = kinds[k][l];
      forward = std::min(forward, prices[k] * layer.forward * samples);
      backward = std::min(
          backward, prices[k] * (layer.backward * samples + layer.update));
    }
    sum += forward + backward;
  }
  return sum;
}

std::vector<double> normalised(std::vector<double> prices,
                               const std::vector<int>& counts) {
  double sum = 0;
  for (std::size_t k = 0; k < prices.size(); ++k) sum += prices[k] * counts[k];
  for (double& price : prices) price /= sum;
  return prices;
}

double work_of_kinds(const std::vector<KindTimes>& kinds,
                     const std::vector<int>& counts, int samples) {
  std::vector<double> speeds;
  for (const KindTimes& kind : kinds) {
    double sum = 0;
    for (const LeastTimes& layer : kind) sum += seconds_of(layer, samples);
    speeds.push_back(1 / std::max(sum, std::numeric_limits<double>::min()));
  }
  const std::vector<double> equal(kinds.size(), 1.0);
  return std::max(work_at_prices(kinds, normalised(equal, counts), samples),
                  work_at_prices(kinds, normalised(speeds, counts), samples));
}

double fastest_link(const Cluster& cluster) {
  double fastest = 0;
  for (const Link& link : cluster.links())
    fastest = std::max(fastest, link.bandwidth.value());
  return fastest;
}

// A ring of r sends 2 (r - 1) / r of the bytes over its slowest link.
double layer_bound(const Problem& problem,
                   const std::vector<KindTimes>& kinds) {
  const double bandwidth = fastest_link(*problem.cluster);
  double bound = 0;
  for (std::size_t l = 0; l < problem.profile->layers.size(); ++l) {
    double work = kInfinity, update = kInfinity;
    for (const KindTimes& kind : kinds) {
      work = std::min(work, kind[l].backward * problem.minibatch);
      update = std::min(update, kind[l].update);
    }
    const auto bytes = static_cast<double>(
        problem.profile->parameter_bytes(LayerId(l)).value());
    double least = work;
    for (int r = 2; r <= problem.cluster->num_devices() && bandwidth > 0; ++r)
      least = std::min(least, work / r + 2.0 * (r - 1) / r * bytes / bandwidth);
    bound = std::max(bound, least + update);
  }
  return bound;
}

// The longest path of the graph, forward and backward, for the smallest slice
// of a microbatch that replicas can have.
double path_of_microbatch(const Problem& problem, int microbatch) {
  const int smallest = std::max(1, microbatch / problem.cluster->num_devices());
  const auto& layers = problem.profile->layers;
  std::vector<double> forward(layers.size(), kInfinity);
  std::vector<double> backward(layers.size(), kInfinity);
  const int kinds = static_cast<int>(problem.cluster->kinds().size());
  for (int k = 0; k < kinds; ++k)
    visit_least_times(
        problem, k, smallest, microbatch,
        [&](std::size_t l, const LayerTimes& times, int) {
          forward[l] = std::min(forward[l], times.forward.value());
          backward[l] = std::min(backward[l], times.backward_input.value());
        });
  std::vector<double> path(layers.size(), 0);
  double longest = 0;
  for (std::size_t l = 0; l < layers.size(); ++l) {
    for (LayerId input : layers[l].inputs)
      path[l] = std::max(path[l], path[input.index()]);
    path[l] += forward[l] + backward[l];
    longest = std::max(longest, path[l]);
  }
  return longest;
}

double path_bound(const Problem& problem) {
  double least = kInfinity;
  for (int microbatch : problem.microbatches)
    least = std::min(least, path_of_microbatch(problem, microbatch));
  return least;
}

// All devices have the same price here, so that work and recompute can be
// added.
double memory_bound(const Problem& problem, const std::vector<KindTimes>& kinds,
                    const std::vector<int>& counts) {
  const std::vector<double> equal(kinds.size(), 1.0);
  const double work =
      work_at_prices(kinds, normalised(equal, counts), problem.minibatch);
  double again = kInfinity;
  for (int microbatch : problem.microbatches)
    again = std::min(again, forced_recompute(problem, microbatch, kinds));
  return work + again / problem.cluster->num_devices();
}

bool is_known(const Problem& problem) {
  for (const DeviceKind& kind : problem.cluster->kinds())
    if (!times_at(*problem.profile, kind.name, 1, Outside::Extrapolate))
      return false;
  return largest_microbatch(problem) > 0;
}

}  // namespace

Seconds Bounds::largest() const {
  return std::max({work, layer, path, slices, link, memory, replicas, cards});
}

Bounds bounds_of(const Problem& problem) {
  Bounds bounds;
  if (!is_known(problem)) return bounds;
  std::vector<KindTimes> kinds;
  std::vector<int> counts(problem.cluster->kinds().size(), 0);
  for (const Device& device : problem.cluster->devices())
    ++counts[at(device.kind)];
  for (std::size_t k = 0; k < counts.size(); ++k)
    kinds.push_back(least_times(problem, static_cast<int>(k)));
  bounds.work = Seconds(work_of_kinds(kinds, counts, problem.minibatch));
  bounds.memory = Seconds(memory_bound(problem, kinds, counts));
  bounds.link = Seconds(link_bound(problem));
  if (!is_asynchronous(problem.method)) {
    bounds.layer = Seconds(layer_bound(problem, kinds));
    bounds.path = Seconds(path_bound(problem));
    bounds.slices = Seconds(slice_bound(problem));
  }
  const Pivots pivots(problem, kinds);
  bounds.replicas = Seconds(replica_bound(pivots, bounds.largest().value()));
  bounds.cards = Seconds(card_bound(pivots, bounds.replicas.value()));
  return bounds;
}

Seconds lower_bound(const Problem& problem) {
  if (!problem.wants_bound) return Seconds(0);
  // Allows for rounding: the simulator adds in another order.
  return bounds_of(problem).largest() * (1 - 1e-9);
}

}  // namespace pipewright
