#include "pipewright/cluster/cluster.h"

#include <algorithm>
#include <limits>

namespace pipewright {

Link mirrored(Link link) {
  for (Link::Use& use : link.uses) use.upstream = !use.upstream;
  std::sort(link.uses.begin(), link.uses.end());
  return link;
}

int Cluster::num_hosts() const {
  int highest = -1;
  for (const Device& device : devices_)
    highest = std::max(highest, device.host);
  return highest + 1;
}

const Link* Cluster::link(DeviceId from, DeviceId to) const {
  static const Link kSelf{
      BytesPerSecond(std::numeric_limits<double>::infinity()),
      Seconds(0),
      Duplex::Full,
      {}};
  if (from == to) return &kSelf;
  const int index = link_index(from, to);
  return index < 0 ? nullptr : &links_[index];
}

}  // namespace pipewright
