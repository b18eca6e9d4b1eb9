// Builds a Cluster from its parts and checks the result.
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
  // Add all devices before the first link. A later link between the same two
  // devices replaces the earlier one; connect_both() also adds the mirrored
  // link in the other direction.
  void connect(DeviceId from, DeviceId to, const Link& link);
  // Connects each device of `from` with each of `to`, except with itself.
  void connect(std::span<const DeviceId> from, std::span<const DeviceId> to,
               const Link& link);
  void connect_both(DeviceId from, DeviceId to, const Link& link);
  void disconnect(DeviceId from, DeviceId to);  // both directions

  const std::vector<Device>& devices() const { return cluster_.devices_; }

  // Fails with MalformedInput and lists everything that is wrong: no devices, a
  // duplicate name, an index out of range, a bandwidth that is not positive, a
  // link in one direction only. The builder is empty afterwards.
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
