// Makes a Cluster, piece by piece, and checks it as a whole.
//
//   ClusterBuilder builder("pair");
//   const int kind = builder.add_kind(v100);
//   const DeviceId a = builder.add_device({"a", kind, 0});
//   const DeviceId b = builder.add_device({"b", kind, 0});
//   builder.connect_both(a, b, {BytesPerSecond(1e9), Seconds(5e-6)});
//   Result<Cluster> cluster = builder.build();

#pragma once

#include <span>
#include <string>
#include <unordered_map>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

class ClusterBuilder {
 public:
  explicit ClusterBuilder(std::string name) {
    cluster_.name_ = std::move(name);
  }

  int add_kind(DeviceKind kind);  // its index
  int add_resource(SharedResource resource);
  DeviceId add_device(Device device);
  // All devices must be there before the first of these. A later link between
  // the same two replaces the earlier; connect_both gives the way back the
  // mirrored link.
  void connect(DeviceId from, DeviceId to, const Link& link);
  // Each of the first to each of the second; a device's way to itself is left
  // out.
  void connect(std::span<const DeviceId> from, std::span<const DeviceId> to,
               const Link& link);
  void connect_both(DeviceId from, DeviceId to, const Link& link);
  void disconnect(DeviceId from, DeviceId to);  // both ways

  const std::vector<Device>& devices() const { return cluster_.devices_; }

  // Fails with MalformedInput, naming all that is wrong: no device, a name used
  // twice, an index out of range, a bandwidth that is not above 0, a way there
  // without a way back. The builder is empty afterwards.
  Result<Cluster> build();

 private:
  int& slot(DeviceId from, DeviceId to);
  int index_of(const Link& link);
  void sort_links();

  Cluster cluster_;
  struct LinkHash {
    std::size_t operator()(const Link& link) const;
  };
  std::unordered_map<Link, int, LinkHash> known_links_;
};

}  // namespace pipewright
