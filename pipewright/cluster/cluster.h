// What there is to run on: devices, and what connects each pair of them.
//
// A transfer between two devices takes the latency of their link, then its
// bytes at the link's bandwidth, less where other transfers use the same shared
// resource (a host's network card, a PCIe switch) at the same time.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

// Whether a device computes and communicates at the same time on its own
// (streaming FPGAs: Async) or by overlapping separate transfers (GPUs, CPUs:
// Sync), as in BaPipe.
enum class ExecutionClass {
  Sync,
  Async
};

// A kind of device. Kinds are data (presets_text.cc), each with its source.
struct DeviceKind {
  std::string name;                            // "V100"
  std::map<std::string, FlopsPerSecond> peak;  // by number type, "float32"
  std::map<std::string, FlopsPerSecond> achievable;  // what real kernels reach
  Bytes memory;  // off-chip where both exist
  BytesPerSecond memory_bandwidth;
  Bytes on_chip_memory;  // 0 but for FPGAs
  ExecutionClass execution = ExecutionClass::Sync;
  bool overlaps_communication = true;  // transfers run beside compute
  bool splits_layers = false;          // one layer over two devices (FPGA)
  std::string source;

  bool operator==(const DeviceKind&) const = default;
};

struct Device {
  std::string name;  // "host0/V100.3"
  int kind = 0;      // index into Cluster::kinds
  int host = 0;

  bool operator==(const Device&) const = default;
};

enum class Duplex {
  Full,
  Half
};

// Something several links share. Each direction has the whole bandwidth when
// full duplex, both together when half.
struct SharedResource {
  std::string name;  // "host0 network card"
  BytesPerSecond bandwidth;
  Duplex duplex = Duplex::Full;

  bool operator==(const SharedResource&) const = default;
};

// The way from one device to another (directed; both directions exist or
// neither). No link: the pair cannot talk.
struct Link {
  BytesPerSecond bandwidth;
  Seconds latency;
  Duplex duplex = Duplex::Full;  // of the pair's own wire
  struct Use {
    int resource;   // index into Cluster::resources
    bool upstream;  // which of its two directions
    auto operator<=>(const Use&) const = default;
  };
  std::vector<Use> uses;  // ascending

  auto operator<=>(const Link&) const = default;
};
// The same link in the other direction: every use turned round.
Link mirrored(Link link);

class Cluster {
 public:
  const std::string& name() const { return name_; }
  const std::vector<DeviceKind>& kinds() const { return kinds_; }
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<SharedResource>& resources() const { return resources_; }
  int num_devices() const { return static_cast<int>(devices_.size()); }
  const DeviceKind& kind_of(DeviceId device) const {
    return kinds_[static_cast<std::size_t>(devices_[device.index()].kind)];
  }
  int num_hosts() const;  // the highest host and all before it
  // Null when the two cannot talk. A device talks to itself in no time.
  const Link* link(DeviceId from, DeviceId to) const;
  // The distinct links, and which of them a pair has: -1 for none and for a
  // device with itself.
  const std::vector<Link>& links() const { return links_; }
  int link_index(DeviceId from, DeviceId to) const {
    return link_of_[from.index() * devices_.size() + to.index()];
  }

  bool operator==(const Cluster&) const = default;

 private:
  friend class ClusterBuilder;
  Cluster() = default;

  std::string name_;
  std::vector<DeviceKind> kinds_;
  std::vector<Device> devices_;
  std::vector<SharedResource> resources_;
  // Links repeat a lot (all pairs inside a host are alike): a table of distinct
  // ones, and for each ordered pair of devices an index into it, -1 for none.
  std::vector<Link> links_;
  std::vector<int> link_of_;
};

// More than anyone plans for at once; the table of pairs grows with its square.
inline constexpr int kMaxDevices = 4096;

// "4xV100@1GB/s", "2x8xV100@nvlink/10GbE", "4xcpu" (cluster_text.h), or the
// path of a cluster file. Fails with BadConfiguration, MissingInput or
// MalformedInput.
Result<Cluster> load_cluster(const std::string& text_or_file);

// File "pipewright/cluster", version 1; cluster_file.cc shows one. Fails with
// MalformedInput.
Result<Cluster> parse_cluster(std::string_view text, const std::string& file);
std::string to_text(const Cluster& cluster);

}  // namespace pipewright
