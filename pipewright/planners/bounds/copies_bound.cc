#include "pipewright/planners/bounds/copies_bound.h"

#include <algorithm>

#include "pipewright/base/infinity.h"
#include "pipewright/cluster/sum_rounds.h"
#include "pipewright/planners/bounds/islands.h"
#include "pipewright/planners/bounds/least_times.h"
#include "pipewright/planners/copies.h"

namespace pipewright {
namespace {

KindTimes least_work(const Problem& problem) {
  std::vector<KindTimes> kinds;
  for (std::size_t k = 0; k < problem.cluster->kinds().size(); ++k)
    kinds.push_back(least_times(problem, static_cast<int>(k)));
  return least_work(kinds);
}

// Seconds of all devices together before the first sum of any layer.
double least_before(const Problem& problem) {
  const Profile& profile = *problem.profile;
  const KindTimes work = least_work(problem);
  double least = kInfinity;
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    if (profile.parameter_bytes(LayerId(l)) > Bytes(0))
      least = std::min(least, work_before_sums({l}, profile, work));
  return least == kInfinity ? 0 : least * problem.minibatch;
}

}  // namespace

Seconds copies_bound(const Problem& problem, const EqualGroups& groups) {
  const auto [copies, size] = groups;
  if (copies < 2) return Seconds(0);
  const Cluster& cluster = *problem.cluster;
  const auto one = first_devices(cluster, size);
  const auto two = first_devices(cluster, 2 * size);
  if (!one || !two || two->num_hosts() < 2) return Seconds(0);
  const std::vector<Islands> islands = islands_of(*two);
  if (islands.empty()) return Seconds(0);
  double bytes = 0;
  for (const ProfileParameter& parameter : problem.profile->parameters)
    bytes += static_cast<double>(parameter.bytes.value());
  const double on_cards = 2.0 * (copies - 1) / copies * bytes /
                          one->num_hosts() / islands.front().outside;
  if (is_asynchronous(problem.method) || bytes == 0) return Seconds(on_cards);
  return Seconds(least_before(problem) / cluster.num_devices() + on_cards +
                 sum_rounds(copies) * islands.front().latency);
}

Seconds copies_work(const Problem& problem, const EqualGroups& groups) {
  double seconds = 0;
  for (const LeastTimes& layer : least_work(problem))
    seconds += (layer.forward + layer.backward) * problem.minibatch;
  return Seconds(seconds / groups.count / groups.size);
}

}  // namespace pipewright
