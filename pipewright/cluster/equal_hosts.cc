#include "pipewright/cluster/equal_hosts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// What a link uses, without saying which resource it is.
using SharedUse = std::tuple<BytesPerSecond, Duplex, bool, int>;

class HostComparison {
 public:
  explicit HostComparison(const Cluster& cluster)
      : cluster_(cluster), num_links_(cluster.resources().size()) {
    for (const Link& link : cluster.links())
      for (const Link::Use& use : link.uses) ++num_links_[at(use.resource)];
  }

  bool are_equal() {
    const int devices = cluster_.num_devices(), hosts = cluster_.num_hosts();
    if (hosts < 1 || devices % hosts != 0) return false;
    size_ = devices / hosts;
    for (int d = 0; d < devices; ++d)
      if (!is_like_first(d)) return false;
    for (int a = 0; a < devices; ++a)
      for (int b = 0; b < devices; ++b)
        if (a != b && !is_like_others(a, b)) return false;
    return true;
  }

 private:
  // Whether device d is on its host what the first host's is there.
  bool is_like_first(int d) const {
    const Device& device = cluster_.devices()[at(d)];
    return device.host == d / size_ &&
           device.kind == cluster_.devices()[at(d % size_)].kind;
  }

  // Whether the link is that of the first pair in the same places: inside a
  // host, or between two.
  bool is_like_others(int a, int b) {
    const Link* link = cluster_.link(DeviceId(a), DeviceId(b));
    std::optional<Link> own;
    std::vector<SharedUse> uses;
    if (link) {
      own = *link;
      own->uses.clear();
      for (const Link::Use& use : link->uses) {
        const SharedResource& shared = cluster_.resources()[at(use.resource)];
        uses.emplace_back(shared.bandwidth, shared.duplex, use.upstream,
                          num_links_[at(use.resource)]);
      }
      std::sort(uses.begin(), uses.end());
    }
    const std::tuple places{a / size_ == b / size_, a % size_, b % size_};
    const auto known = first_.try_emplace(places, own, uses).first;
    return known->second == std::pair(own, uses);
  }

  const Cluster& cluster_;
  std::vector<int> num_links_;  // that use each resource
  int size_ = 1;                // devices of a host
  std::map<std::tuple<bool, int, int>,
           std::pair<std::optional<Link>, std::vector<SharedUse>>>
      first_;
};

}  // namespace

bool has_equal_hosts(const Cluster& cluster) {
  return HostComparison(cluster).are_equal();
}

}  // namespace pipewright
