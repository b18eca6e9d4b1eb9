#include "pipewright/planners/spp/spp_ratio.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/spp/spp_device_order.h"

namespace pipewright {
namespace {

bool has_one_kind(const Cluster& cluster) {
  return std::all_of(
      cluster.devices().begin(), cluster.devices().end(),
      [&](const Device& d) { return d.kind == cluster.devices()[0].kind; });
}

// A ring of two sends both ways over a shared resource of one direction.
bool has_half_duplex(const Cluster& cluster) {
  return std::any_of(cluster.resources().begin(), cluster.resources().end(),
                     [](const auto& r) { return r.duplex == Duplex::Half; });
}

}  // namespace

double link_spread(const Cluster& cluster) {
  if (!has_one_kind(cluster)) return kInfinity;
  const Bandwidths shared = shared_bandwidths(cluster);
  double fastest = 0, slowest = kInfinity;   // bytes per second
  double longest = 0, shortest = kInfinity;  // latencies
  for (int u = 0; u < cluster.num_devices(); ++u)
    for (int v = 0; v < cluster.num_devices(); ++v) {
      if (u == v) continue;
      const Link* link = cluster.link(DeviceId(u), DeviceId(v));
      if (link == nullptr) return kInfinity;
      fastest = std::max(fastest, link->bandwidth.value());
      slowest = std::min(slowest, shared[at(u)][at(v)]);
      longest = std::max(longest, link->latency.value());
      shortest = std::min(shortest, link->latency.value());
    }
  if (cluster.num_devices() < 2) return 1;
  const double latencies = longest > 0 ? longest / shortest : 1;
  const double rings = has_half_duplex(cluster) ? 2 : 1;
  return std::max(rings * fastest / slowest, latencies);
}

}  // namespace pipewright
