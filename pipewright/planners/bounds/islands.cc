#include "pipewright/planners/bounds/islands.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

// Up to this many devices, single devices are islands in addition to hosts.
constexpr int kMaxSingleDevices = 64;

double rate_of(const Link& link, const Cluster& cluster) {
  double rate = link.bandwidth.value();
  for (const Link::Use& use : link.uses)
    rate =
        std::min(rate, cluster.resources()[at(use.resource)].bandwidth.value());
  return rate;
}

// The links out of one island, or into it.
class Border {
 public:
  explicit Border(std::size_t links) : counts_(links, 0) {}

  void add(int link) { ++counts_[at(link)]; }

  double fastest(const Cluster& cluster) const {
    double fastest = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i] > 0)
        fastest = std::max(fastest, rate_of(cluster.links()[i], cluster));
    return fastest;
  }
  double latency(const Cluster& cluster) const {
    double least = kInfinity;
    for (std::size_t i = 0; i < counts_.size(); ++i)
      if (counts_[i] > 0)
        least = std::min(least, cluster.links()[i].latency.value());
    return least;
  }
  // Of all links together: at most that of a resource that all of them share.
  double rate(const Cluster& cluster) const {
    double sum = 0;
    std::optional<std::vector<Link::Use>> shared;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const Link& link = cluster.links()[i];
      sum += rate_of(link, cluster) * counts_[i];
      if (!shared) shared = link.uses;
      std::vector<Link::Use> both;
      std::set_intersection(shared->begin(), shared->end(), link.uses.begin(),
                            link.uses.end(), std::back_inserter(both));
      shared = std::move(both);
    }
    if (shared)
      for (const Link::Use& use : *shared)
        sum = std::min(sum,
                       cluster.resources()[at(use.resource)].bandwidth.value());
    return sum;
  }

 private:
  std::vector<int> counts_;  // by index of the link
};

Islands islands_by(const Cluster& cluster, const std::vector<int>& island_of,
                   int count) {
  Islands islands;
  islands.count = count;
  std::vector<int> devices(at(count), 0);
  for (int island : island_of)
    islands.max_devices = std::max(islands.max_devices, ++devices[at(island)]);
  islands.min_devices = *std::min_element(devices.begin(), devices.end());
  const int num_devices = cluster.num_devices();
  double latency = kInfinity;
  for (int island = 0; island < count; ++island) {
    Border out(cluster.links().size()), in(cluster.links().size());
    for (int a = 0; a < num_devices; ++a) {
      if (island_of[at(a)] != island) continue;
      for (int b = 0; b < num_devices; ++b) {
        if (island_of[at(b)] == island) continue;
        const int there = cluster.link_index(DeviceId(a), DeviceId(b));
        const int back = cluster.link_index(DeviceId(b), DeviceId(a));
        if (there >= 0) out.add(there);
        if (back >= 0) in.add(back);
      }
    }
    islands.fastest = std::max(islands.fastest, out.fastest(cluster));
    latency = std::min(latency, out.latency(cluster));
    islands.outside =
        std::max({islands.outside, out.rate(cluster), in.rate(cluster)});
  }
  islands.latency = latency == kInfinity ? 0 : latency;
  return islands;
}

}  // namespace

std::vector<Islands> islands_of(const Cluster& cluster) {
  std::vector<int> host_of, self;
  for (int d = 0; d < cluster.num_devices(); ++d) {
    host_of.push_back(cluster.devices()[at(d)].host);
    self.push_back(d);
  }
  std::vector<Islands> all;
  if (cluster.num_hosts() > 1)
    all.push_back(islands_by(cluster, host_of, cluster.num_hosts()));
  // For a thousand devices, the tighter bound is not worth visiting a million
  // pairs.
  if (cluster.num_devices() > 1 &&
      (all.empty() || cluster.num_devices() <= kMaxSingleDevices))
    all.push_back(islands_by(cluster, self, cluster.num_devices()));
  std::erase_if(all, [](const Islands& i) { return i.fastest <= 0; });
  return all;
}

}  // namespace pipewright
