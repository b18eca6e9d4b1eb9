#include "pipewright/cluster/cluster_builder.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

bool is_rate(double rate) { return rate > 0 && std::isfinite(rate); }

using Faults = std::vector<Error>;

void add_fault(Faults& faults, const std::string& place, std::string message) {
  constexpr std::size_t kMaxErrors = 50;
  if (faults.size() < kMaxErrors) faults.push_back(malformed(message, place));
}

template <class Named>
void check_names(const std::vector<Named>& things, const std::string& what,
                 Faults& faults) {
  std::set<std::string_view> seen;
  for (const Named& thing : things) {
    if (thing.name.empty())
      add_fault(faults, "", "a " + what + " without a name");
    if (!seen.insert(thing.name).second)
      add_fault(faults, what + " " + thing.name, "the name is used twice");
  }
}

void check_kind(const DeviceKind& kind, Faults& faults) {
  const std::string place = "kind " + kind.name;
  for (const auto* rates : {&kind.peak, &kind.achievable})
    for (const auto& [type, rate] : *rates)
      if (!is_rate(rate.value()))
        add_fault(faults, place,
                  "its compute rate in " + type + " is not above 0");
  if (kind.memory < Bytes(0) || kind.on_chip_memory < Bytes(0))
    add_fault(faults, place, "its memory is negative");
  if (!is_rate(kind.memory_bandwidth.value()))
    add_fault(faults, place, "its memory bandwidth is not above 0");
}

void check_devices(const Cluster& cluster, Faults& faults) {
  if (cluster.devices().empty()) add_fault(faults, "", "there is no device");
  for (const Device& device : cluster.devices()) {
    const std::string place = "device " + device.name;
    if (device.kind < 0 ||
        static_cast<std::size_t>(device.kind) >= cluster.kinds().size())
      add_fault(faults, place,
                "there is no kind " + std::to_string(device.kind));
    if (device.host < 0 || device.host >= kMaxDevices)
      add_fault(faults, place,
                "host " + std::to_string(device.host) +
                    " is not between 0 and " + std::to_string(kMaxDevices - 1));
  }
}

void check_link(const Link& link, std::size_t num_resources, Faults& faults) {
  if (!is_rate(link.bandwidth.value()))
    add_fault(faults, "a link", "its bandwidth is not above 0");
  if (!(link.latency.value() >= 0) || !std::isfinite(link.latency.value()))
    add_fault(faults, "a link", "its latency is negative or not finite");
  for (const Link::Use& use : link.uses)
    if (use.resource < 0 ||
        static_cast<std::size_t>(use.resource) >= num_resources)
      add_fault(faults, "a link",
                "there is no resource " + std::to_string(use.resource));
}

// In tiles: a column of a large table lies in as many cache lines.
void check_ways_back(const Cluster& cluster, Faults& faults) {
  constexpr std::size_t kTile = 64;
  const std::size_t count = cluster.devices().size();
  const auto has_way = [&](std::size_t from, std::size_t to) {
    return cluster.link_index(DeviceId(from), DeviceId(to)) >= 0;
  };
  const auto check = [&](std::size_t a, std::size_t b) {
    const bool there = has_way(a, b);
    if (there == has_way(b, a)) [[likely]]
      return;
    add_fault(faults,
              "link from " + cluster.devices()[there ? a : b].name + " to " +
                  cluster.devices()[there ? b : a].name,
              "there is no way back");
  };
  for (std::size_t i = 0; i < count; i += kTile)
    for (std::size_t j = 0; j <= i; j += kTile)
      for (std::size_t a = i; a < std::min(i + kTile, count); ++a)
        for (std::size_t b = j; b < std::min(j + kTile, a); ++b) check(a, b);
}

}  // namespace

int ClusterBuilder::add_kind(DeviceKind kind) {
  cluster_.kinds_.push_back(std::move(kind));
  return static_cast<int>(cluster_.kinds_.size()) - 1;
}

int ClusterBuilder::add_resource(SharedResource resource) {
  cluster_.resources_.push_back(std::move(resource));
  return static_cast<int>(cluster_.resources_.size()) - 1;
}

DeviceId ClusterBuilder::add_device(Device device) {
  PIPEWRIGHT_CHECK(cluster_.link_of_.empty(), "links come after all devices");
  PIPEWRIGHT_CHECK(cluster_.num_devices() < kMaxDevices, "too many devices");
  cluster_.devices_.push_back(std::move(device));
  return DeviceId(cluster_.devices_.size() - 1);
}

int& ClusterBuilder::slot(DeviceId from, DeviceId to) {
  const std::size_t count = cluster_.devices_.size();
  if (cluster_.link_of_.empty()) cluster_.link_of_.assign(count * count, -1);
  PIPEWRIGHT_CHECK(from.index() < count && to.index() < count && from != to,
                   "a link needs two devices of the cluster");
  return cluster_.link_of_[from.index() * count + to.index()];
}

std::size_t ClusterBuilder::LinkHash::operator()(const Link& link) const {
  std::size_t hash = std::hash<double>()(link.bandwidth.value());
  const auto mix = [&](std::size_t more) { hash = hash * 1000003 ^ more; };
  mix(std::hash<double>()(link.latency.value()));
  mix(link.duplex == Duplex::Half);
  for (const Link::Use& use : link.uses)
    mix(static_cast<std::size_t>(use.resource) * 2 + use.upstream);
  return hash;
}

int ClusterBuilder::index_of(const Link& link) {
  const auto [known, is_new] =
      known_links_.emplace(link, static_cast<int>(cluster_.links_.size()));
  if (is_new) cluster_.links_.push_back(link);
  return known->second;
}

void ClusterBuilder::connect(DeviceId from, DeviceId to, const Link& link) {
  slot(from, to) = index_of(link);
}

void ClusterBuilder::connect(std::span<const DeviceId> from,
                             std::span<const DeviceId> to, const Link& link) {
  if (from.empty() || to.empty()) return;
  const int index = index_of(link);
  const std::size_t count = cluster_.devices_.size();
  if (cluster_.link_of_.empty()) cluster_.link_of_.assign(count * count, -1);
  for (DeviceId device : to)
    PIPEWRIGHT_CHECK(device.index() < count, "a link needs two devices");
  for (DeviceId a : from) {
    PIPEWRIGHT_CHECK(a.index() < count, "a link needs two devices");
    int* row = &cluster_.link_of_[a.index() * count];
    for (DeviceId b : to)
      if (a != b) row[b.index()] = index;
  }
}

void ClusterBuilder::connect_both(DeviceId from, DeviceId to,
                                  const Link& link) {
  connect(from, to, link);
  connect(to, from, mirrored(link));
}

void ClusterBuilder::disconnect(DeviceId from, DeviceId to) {
  slot(from, to) = -1;
  slot(to, from) = -1;
}

// Links in the order of their first pair, unused ones dropped, so that equal
// clusters have equal tables however they were made.
void ClusterBuilder::sort_links() {
  std::vector<int> position(cluster_.links_.size(), -1);
  std::vector<Link> ordered;
  for (int& index : cluster_.link_of_) {
    if (index < 0) continue;
    int& place = position[static_cast<std::size_t>(index)];
    if (place < 0) {
      place = static_cast<int>(ordered.size());
      ordered.push_back(
          std::move(cluster_.links_[static_cast<std::size_t>(index)]));
    }
    index = place;
  }
  cluster_.links_ = std::move(ordered);
}

Result<Cluster> ClusterBuilder::build() {
  const std::size_t count = cluster_.devices_.size();
  if (cluster_.link_of_.empty()) cluster_.link_of_.assign(count * count, -1);
  Faults faults;
  check_names(cluster_.kinds_, "kind", faults);
  check_names(cluster_.devices_, "device", faults);
  check_names(cluster_.resources_, "resource", faults);
  for (const DeviceKind& kind : cluster_.kinds_) check_kind(kind, faults);
  for (const SharedResource& resource : cluster_.resources_)
    if (!is_rate(resource.bandwidth.value()))
      add_fault(faults, "resource " + resource.name,
                "its bandwidth is not above 0");
  check_devices(cluster_, faults);
  for (const Link& link : cluster_.links_)
    check_link(link, cluster_.resources_.size(), faults);
  check_ways_back(cluster_, faults);
  if (!faults.empty()) {
    Error first = faults.front();
    first.others.assign(faults.begin() + 1, faults.end());
    return first;
  }
  sort_links();
  known_links_.clear();
  return std::move(cluster_);
}

}  // namespace pipewright
