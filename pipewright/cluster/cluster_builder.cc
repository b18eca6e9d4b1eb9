#include "pipewright/cluster/cluster_builder.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

bool is_rate(double rate) { return rate > 0 && std::isfinite(rate); }

bool is_amount(double amount) { return amount >= 0 && std::isfinite(amount); }

using Errors = std::vector<Error>;

void add_error(Errors& errors, const std::string& place, std::string message) {
  constexpr std::size_t kMaxErrors = 50;
  if (errors.size() < kMaxErrors) errors.push_back(malformed(message, place));
}

template <class Named>
void check_names(const std::vector<Named>& things, const std::string& what,
                 Errors& errors) {
  std::set<std::string_view> seen;
  for (const Named& thing : things) {
    if (thing.name.empty()) add_error(errors, "", "a " + what + " has no name");
    if (!seen.insert(thing.name).second)
      add_error(errors, what + " " + thing.name, "duplicate name");
  }
}

void check_kind(const DeviceKind& kind, Errors& errors) {
  const std::string place = "kind " + kind.name;
  for (const auto* rates : {&kind.peak, &kind.achievable})
    for (const auto& [type, rate] : *rates)
      if (!is_rate(rate.value()))
        add_error(errors, place,
                  "the compute rate in " + type + " must be positive");
  if (kind.memory < Bytes(0) || kind.on_chip_memory < Bytes(0))
    add_error(errors, place, "the memory must not be negative");
  if (!kind.peak.empty() && !is_rate(kind.memory_bandwidth.value()))
    add_error(errors, place, "the memory bandwidth must be positive");
  if (!(kind.overlap >= 0 && kind.overlap <= 1))
    add_error(errors, place, "the overlap must be between 0 and 1");
  if (kind.base_memory < Bytes(0) || !is_amount(kind.fragmentation) ||
      !is_amount(kind.layer_overhead) ||
      !is_amount(kind.gradient_overhead.value()) ||
      !is_amount(kind.action_overhead.value()) ||
      !is_amount(kind.step_overhead.value()))
    add_error(errors, place,
              "an overhead or the base memory is negative or not finite");
}

void check_devices(const Cluster& cluster, Errors& errors) {
  if (cluster.devices().empty())
    add_error(errors, "", "the cluster has no devices");
  for (const Device& device : cluster.devices()) {
    const std::string place = "device " + device.name;
    if (device.kind < 0 ||
        device.kind >= static_cast<int>(cluster.kinds().size()))
      add_error(errors, place, "unknown kind " + std::to_string(device.kind));
    if (device.host < 0 || device.host >= kMaxDevices)
      add_error(errors, place,
                "host " + std::to_string(device.host) +
                    " is not between 0 and " + std::to_string(kMaxDevices - 1));
  }
}

void check_link(const Link& link, int num_resources, Errors& errors) {
  if (!is_rate(link.bandwidth.value()))
    add_error(errors, "a link", "the bandwidth must be positive");
  if (!(link.latency.value() >= 0) || !std::isfinite(link.latency.value()))
    add_error(errors, "a link", "the latency must be finite and not negative");
  for (const MessageRates* rates : {&link.rates, &link.collective_rates})
    for (const MessageRate& rate : *rates)
      if (!is_rate(rate.rate.value()) || rate.rate > link.bandwidth)
        add_error(errors, "a link",
                  "a rate of " + to_text(rate.rate) + " for messages of " +
                      to_text(rate.message) +
                      " is not between 0 and the bandwidth, " +
                      to_text(link.bandwidth));
  for (const Link::Use& use : link.uses)
    if (use.resource < 0 || use.resource >= num_resources)
      add_error(errors, "a link",
                "unknown resource " + std::to_string(use.resource));
}

// In tiles: every element of a column of a large table is in another cache
// line.
void check_both_directions(const Cluster& cluster, Errors& errors) {
  constexpr std::size_t kTile = 64;
  const std::size_t count = cluster.devices().size();
  const auto has_way = [&](std::size_t from, std::size_t to) {
    return cluster.link_index(DeviceId(from), DeviceId(to)) >= 0;
  };
  const auto check = [&](std::size_t a, std::size_t b) {
    const bool there = has_way(a, b);
    if (there == has_way(b, a)) [[likely]]
      return;
    add_error(errors,
              "link from " + cluster.devices()[there ? a : b].name + " to " +
                  cluster.devices()[there ? b : a].name,
              "there is no link in the opposite direction");
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
  for (const Link::Use& use : link.uses) mix(2 * use.resource + use.upstream);
  mix(link.rates.size());
  mix(link.collective_rates.size());
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

// Sorts links by their first pair and drops unused ones, so that equal clusters
// have equal tables however they were built.
void ClusterBuilder::sort_links() {
  std::vector<int> position(cluster_.links_.size(), -1);
  std::vector<Link> ordered;
  for (int& index : cluster_.link_of_) {
    if (index < 0) continue;
    int& place = position[index];
    if (place < 0) {
      place = static_cast<int>(ordered.size());
      ordered.push_back(std::move(cluster_.links_[index]));
    }
    index = place;
  }
  cluster_.links_ = std::move(ordered);
}

Result<Cluster> ClusterBuilder::build() {
  const std::size_t count = cluster_.devices_.size();
  if (cluster_.link_of_.empty()) cluster_.link_of_.assign(count * count, -1);
  Errors errors;
  check_names(cluster_.kinds_, "kind", errors);
  check_names(cluster_.devices_, "device", errors);
  check_names(cluster_.resources_, "resource", errors);
  for (const DeviceKind& kind : cluster_.kinds_) check_kind(kind, errors);
  for (const SharedResource& resource : cluster_.resources_)
    if (!is_rate(resource.bandwidth.value()))
      add_error(errors, "resource " + resource.name,
                "the bandwidth must be positive");
  check_devices(cluster_, errors);
  for (const Link& link : cluster_.links_)
    check_link(link, cluster_.resources_.size(), errors);
  check_both_directions(cluster_, errors);
  if (!errors.empty()) {
    Error first = errors.front();
    first.others.assign(errors.begin() + 1, errors.end());
    return first;
  }
  sort_links();
  known_links_.clear();
  return std::move(cluster_);
}

}  // namespace pipewright
