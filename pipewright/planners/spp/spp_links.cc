#include "pipewright/planners/spp/spp_links.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/cluster/sum_rounds.h"

namespace pipewright {
namespace {

// The first sample of a replica's slice, as in lowering.
int first_sample(int replica, int replicas, int microbatch) {
  return static_cast<int>(static_cast<std::int64_t>(microbatch) * replica /
                          replicas);
}

}  // namespace

LinkCosts::LinkCosts(const Cluster& cluster)
    : cluster_(cluster), carried_(2 * cluster.resources().size(), 0.0) {}

void LinkCosts::start() {
  for (std::size_t slot : touched_) carried_[slot] = 0;
  touched_.clear();
  slowest_ = {};
}

void LinkCosts::add(DeviceId from, DeviceId to, double share) {
  const Link* link = cluster_.link(from, to);
  if (link == nullptr) {
    slowest_.per_byte = kInfinity;
    return;
  }
  slowest_.per_byte =
      std::max(slowest_.per_byte, share / link->bandwidth.value());
  slowest_.fixed = std::max(slowest_.fixed, link->latency.value());
  for (const Link::Use& use : link->uses) {
    const std::size_t resource = at(use.resource);
    const bool half = cluster_.resources()[resource].duplex == Duplex::Half;
    const std::size_t slot = 2 * resource + (use.upstream && !half ? 1 : 0);
    if (carried_[slot] == 0) touched_.push_back(slot);
    carried_[slot] += share;
  }
}

LinkCost LinkCosts::total() const {
  LinkCost cost = slowest_;
  for (std::size_t slot : touched_)
    cost.per_byte = std::max(
        cost.per_byte,
        carried_[slot] / cluster_.resources()[slot / 2].bandwidth.value());
  return cost;
}

LinkCost LinkCosts::channel(std::span<const DeviceId> from,
                            std::span<const DeviceId> to, int microbatch) {
  const int senders = static_cast<int>(from.size());
  const int receivers = static_cast<int>(to.size());
  LinkCost slower;
  for (bool back : {false, true}) {
    start();
    for (int i = 0, j = 0; i < senders && j < receivers;) {
      const int i_end = first_sample(i + 1, senders, microbatch);
      const int j_end = first_sample(j + 1, receivers, microbatch);
      const int overlap = std::min(i_end, j_end) -
                          std::max(first_sample(i, senders, microbatch),
                                   first_sample(j, receivers, microbatch));
      const DeviceId a = from[at(i)], b = to[at(j)];
      if (overlap > 0)
        add(back ? b : a, back ? a : b,
            static_cast<double>(overlap) / microbatch);
      i += i_end <= j_end;
      j += j_end <= i_end;
    }
    const LinkCost cost = total();
    slower.per_byte = std::max(slower.per_byte, cost.per_byte);
    slower.fixed = std::max(slower.fixed, cost.fixed);
  }
  return slower;
}

LinkCost LinkCosts::ring(std::span<const DeviceId> devices) {
  if (devices.size() < 2) return {};
  start();
  for (std::size_t i = 0; i < devices.size(); ++i)
    add(devices[i], devices[(i + 1) % devices.size()], 1.0);
  const auto r = static_cast<double>(devices.size());
  const LinkCost once = total();
  return {once.per_byte * (2 * (r - 1) / r),
          once.fixed * sum_rounds(static_cast<int>(devices.size()))};
}

}  // namespace pipewright
