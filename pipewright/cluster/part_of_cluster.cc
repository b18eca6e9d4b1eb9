#include "pipewright/cluster/part_of_cluster.h"

#include <map>

#include "pipewright/cluster/cluster_builder.h"

namespace pipewright {

Result<Cluster> part_of_cluster(const Cluster& cluster,
                                std::span<const DeviceId> devices) {
  ClusterBuilder builder(cluster.name());
  for (const DeviceKind& kind : cluster.kinds()) builder.add_kind(kind);
  for (const SharedResource& resource : cluster.resources())
    builder.add_resource(resource);
  std::map<int, int> hosts;  // the old number, the new one
  std::vector<DeviceId> added;
  for (const DeviceId old : devices) {
    Device device = cluster.devices()[old.index()];
    const int next = static_cast<int>(hosts.size());
    device.host = hosts.emplace(device.host, next).first->second;
    added.push_back(builder.add_device(device));
  }
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = 0; b < devices.size(); ++b)
      if (const Link* link = cluster.link(devices[a], devices[b]);
          a != b && link != nullptr)
        builder.connect(added[a], added[b], *link);
  return builder.build();
}

}  // namespace pipewright
