#include "pipewright/planners/dapple/dapple_hosts.h"

#include <algorithm>
#include <numeric>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

bool divides(int size, const std::vector<std::vector<DeviceId>>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [&](const auto& devices) {
    return devices.size() % at(size) == 0;
  });
}

}  // namespace

DappleHosts::DappleHosts(const Cluster& cluster, int max_groups) {
  const int devices = cluster.num_devices();
  devices_.resize(at(cluster.num_hosts()));
  for (int d = 0; d < devices; ++d)
    devices_[at(cluster.devices()[at(d)].host)].push_back(DeviceId(d));
  std::erase_if(devices_, [](const auto& host) { return host.empty(); });
  const auto fits = [&](int size) {
    return devices / size <= max_groups && divides(size, devices_);
  };
  while (size_ < devices && !fits(size_)) ++size_;
  if (!fits(size_)) {
    devices_.resize(1);
    devices_[0].clear();
    for (int d = 0; d < devices; ++d) devices_[0].push_back(DeviceId(d));
    for (size_ = 1; !fits(size_);) ++size_;
  }
  num_groups_ = devices / size_;
  for (const auto& host : devices_)
    counts_.push_back(static_cast<int>(host.size()) / size_);
  bandwidth_.assign(counts_.size() * counts_.size(), kInfinity);
  for (std::size_t a = 0; a < devices_.size(); ++a)
    for (std::size_t b = 0; b < devices_.size(); ++b)
      for (DeviceId x : devices_[a])
        for (DeviceId y : devices_[b])
          if (const Link* link = x == y ? nullptr : cluster.link(x, y))
            bandwidth(a, b) =
                std::min(bandwidth(a, b), link->bandwidth.value());
}

DappleHosts::Groups DappleHosts::placed(const Groups& used, int count,
                                        DapplePlacement placement) const {
  Groups taken = none();
  if (placement == DapplePlacement::ScatterFirst) {
    while (count > 0)
      for (std::size_t h = 0; h < used.size() && count > 0; ++h)
        if (used[h] + taken[h] < counts_[h]) ++taken[h], --count;
    return taken;
  }
  const bool unused_first = placement == DapplePlacement::FreshFirst;
  for (bool unused : {unused_first, !unused_first})
    for (std::size_t h = 0; h < used.size(); ++h)
      if ((used[h] == 0) == unused) {
        taken[h] = std::min(count, counts_[h] - used[h]);
        count -= taken[h];
      }
  return taken;
}

DappleHosts::Groups DappleHosts::rest(const Groups& used) const {
  Groups left = counts_;
  for (std::size_t h = 0; h < left.size(); ++h) left[h] -= used[h];
  return left;
}

double DappleHosts::inside(const Groups& taken) const {
  return between(taken, taken);
}

double DappleHosts::between(const Groups& from, const Groups& to) const {
  double slowest = kInfinity;
  for (std::size_t a = 0; a < from.size(); ++a)
    for (std::size_t b = 0; b < to.size(); ++b)
      if (from[a] > 0 && to[b] > 0)
        slowest = std::min(slowest, bandwidth(a, b));
  return slowest;
}

double DappleHosts::streams(const Groups& from, const Groups& to) const {
  bool is_inside = true;  // every pair of hosts is one host
  int from_hosts = 0, to_hosts = 0;
  for (std::size_t h = 0; h < from.size(); ++h) {
    from_hosts += from[h] > 0;
    to_hosts += to[h] > 0;
    is_inside = is_inside && (from[h] > 0) == (to[h] > 0);
  }
  if (!is_inside || from_hosts > 1) return std::min(from_hosts, to_hosts);
  return size_ * std::min(std::accumulate(from.begin(), from.end(), 0),
                          std::accumulate(to.begin(), to.end(), 0));
}

std::vector<DeviceId> DappleHosts::devices(const Groups& used,
                                           const Groups& taken) const {
  std::vector<DeviceId> all;
  for (std::size_t h = 0; h < taken.size(); ++h) {
    const auto first = devices_[h].begin() + used[h] * size_;
    all.insert(all.end(), first, first + taken[h] * size_);
  }
  return all;
}

}  // namespace pipewright
