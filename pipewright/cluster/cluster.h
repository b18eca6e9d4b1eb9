// The hardware: devices, and the links that connect pairs of them.
//
// A transfer between two devices takes the latency of their link plus its bytes
// divided by the bandwidth, or by the rate of a message of that size where the
// link lists rates. It is slower while other transfers use the same shared
// resource (a host's network card, a PCIe switch).
//
// What a device costs beyond the layers of a profile has a name in DeviceKind:
// memory that no layer makes, and time that no layer takes.

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

// As in BaPipe: an Async device (a streaming FPGA) communicates while it
// computes; a Sync device (GPU, CPU) can only overlap separate transfers.
enum class ExecutionClass {
  Sync,
  Async
};

// A kind of device. The known ones are data with sources (presets_text.cc).
struct DeviceKind {
  std::string name;                            // "V100"
  std::map<std::string, FlopsPerSecond> peak;  // by number type, "float32"
  std::map<std::string, FlopsPerSecond> achievable;  // what real kernels reach
  Bytes memory;  // off-chip, if there are both
  BytesPerSecond memory_bandwidth;
  Bytes on_chip_memory;  // FPGAs only, otherwise 0
  ExecutionClass execution = ExecutionClass::Sync;
  // The share of a transfer's time in which its sender and its receiver can
  // compute: 1 all of it, 0 nothing (sends and receives block).
  double overlap = 1;
  bool splits_layers = false;  // one layer on two devices (FPGA)
  std::string source;

  // Memory in use that no layer makes: context, libraries, communication
  // buffers. Then what the allocator holds beyond what was asked for, as a
  // share of what a program asks for.
  Bytes base_memory;
  double fragmentation = 0;

  // Time that a profile of single layers does not have: the share by which
  // layers take longer in a run, what the gradients of a layer take in each
  // backward (to add them to those before, to gather them for a sum), and what
  // each compute action and each optimizer step takes in addition.
  double layer_overhead = 0;
  Seconds gradient_overhead;
  Seconds action_overhead;
  Seconds step_overhead;

  bool operator==(const DeviceKind&) const = default;
};

// The most that a program can hold on a device of the kind.
Bytes usable_memory(const DeviceKind& kind);
// What a program that holds so much takes on a device of the kind, with base
// memory and fragmentation.
Bytes memory_with_base(const DeviceKind& kind, Bytes program);

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

// A piece of hardware that several links share. Full duplex: each direction has
// the whole bandwidth. Half duplex: both directions share it.
struct SharedResource {
  std::string name;  // "host0 network card"
  BytesPerSecond bandwidth;
  Duplex duplex = Duplex::Full;

  bool operator==(const SharedResource&) const = default;
};

// The rate of messages of one size.
struct MessageRate {
  Bytes message;
  BytesPerSecond rate;

  auto operator<=>(const MessageRate&) const = default;
};
// Ascending in size. Between two sizes the time is interpolated; outside, the
// nearest rate is used.
using MessageRates = std::vector<MessageRate>;
// The rates must not be empty.
BytesPerSecond rate_at(const MessageRates& rates, Bytes message);

// The connection from one device to another. Links are directed, but always
// exist in both directions. Devices without a link cannot communicate.
struct Link {
  BytesPerSecond bandwidth;
  Seconds latency;
  Duplex duplex = Duplex::Full;  // of the link itself
  struct Use {
    int resource;   // index into Cluster::resources
    bool upstream;  // which of its two directions
    auto operator<=>(const Use&) const = default;
  };
  std::vector<Use> uses;  // ascending
  // Where the rate depends on the size; none is above the bandwidth. Pieces of
  // a reduction have rates of their own.
  MessageRates rates = {};
  MessageRates collective_rates = {};  // empty: those of other messages

  auto operator<=>(const Link&) const = default;
};
BytesPerSecond message_rate(const Link& link, Bytes message);
BytesPerSecond collective_rate(const Link& link, Bytes piece);
// The same link in the opposite direction.
Link mirrored(Link link);

class Cluster {
 public:
  const std::string& name() const { return name_; }
  const std::vector<DeviceKind>& kinds() const { return kinds_; }
  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<SharedResource>& resources() const { return resources_; }
  int num_devices() const { return static_cast<int>(devices_.size()); }
  const DeviceKind& kind_of(DeviceId device) const {
    return kinds_[devices_[device.index()].kind];
  }
  int num_hosts() const;  // 1 + the highest host number
  // Null if the devices cannot communicate. From a device to itself: infinite
  // bandwidth.
  const Link* link(DeviceId from, DeviceId to) const;
  // The distinct links, and the index of a pair's link: -1 for none and from a
  // device to itself.
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
  // Many pairs have equal links (all pairs within a host): a table of distinct
  // links, and for each ordered pair of devices an index into it, -1 for none.
  std::vector<Link> links_;
  std::vector<int> link_of_;
};

// The table of pairs grows with the square of this.
inline constexpr int kMaxDevices = 4096;

// Reads "4xV100@1GB/s", "2x8xV100@nvlink/10GbE", "4xcpu" (cluster_text.h), or a
// cluster file. Fails with BadConfiguration, MissingInput or
// MalformedInput.
Result<Cluster> load_cluster(const std::string& text_or_file);

// The file "pipewright/cluster", version 1; cluster_file.cc shows an example.
// Fails with MalformedInput.
Result<Cluster> parse_cluster(std::string_view text, const std::string& file);
std::string to_text(const Cluster& cluster);

}  // namespace pipewright
