#include "pipewright/cluster/cluster.h"

#include <algorithm>
#include <limits>

namespace pipewright {

Bytes usable_memory(const DeviceKind& kind) {
  const Bytes left = std::max(Bytes(0), kind.memory - kind.base_memory);
  if (kind.fragmentation == 0) return left;
  return Bytes(static_cast<std::int64_t>(static_cast<double>(left.value()) /
                                         (1 + kind.fragmentation)));
}

Bytes memory_with_base(const DeviceKind& kind, Bytes program) {
  return kind.base_memory + program +
         Bytes(static_cast<std::int64_t>(kind.fragmentation *
                                         static_cast<double>(program.value())));
}

BytesPerSecond rate_at(const MessageRates& rates, Bytes message) {
  const auto above = std::lower_bound(
      rates.begin(), rates.end(), message,
      [](const MessageRate& r, Bytes m) { return r.message < m; });
  if (above == rates.end()) return rates.back().rate;
  if (above == rates.begin()) return above->rate;
  const MessageRate& low = *(above - 1);
  const MessageRate& high = *above;
  const double t = (message - low.message) / (high.message - low.message);
  const Seconds time =
      (1 - t) * (low.message / low.rate) + t * (high.message / high.rate);
  if (!(time > Seconds(0))) return high.rate;
  return BytesPerSecond(static_cast<double>(message.value()) / time.value());
}

BytesPerSecond message_rate(const Link& link, Bytes message) {
  return link.rates.empty() ? link.bandwidth : rate_at(link.rates, message);
}

BytesPerSecond collective_rate(const Link& link, Bytes piece) {
  return link.collective_rates.empty() ? message_rate(link, piece)
                                       : rate_at(link.collective_rates, piece);
}

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
      {},
      {},
      {}};
  if (from == to) return &kSelf;
  const int index = link_index(from, to);
  return index < 0 ? nullptr : &links_[index];
}

}  // namespace pipewright
