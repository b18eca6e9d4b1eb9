// The cluster file, "pipewright/cluster" version 1:
//
//   {
//     "format": "pipewright/cluster", "version": 1, "name": "two hosts",
//     "kinds": [],                         // own kinds; presets need no entry
//     "devices": [
//       {"kind": "V100", "host": 0, "count": 8},  // named host0/V100.0 to .7
//       {"kind": "T4", "host": 1, "name": "old"}
//     ],
//     "resources": [{"name": "card 0", "bandwidth": "10Gb/s"},
//                   {"name": "card 1", "bandwidth": "10Gb/s"}],
//     "within_hosts": {"bandwidth": "50GB/s", "latency": "3us"},
//     "between_hosts": {"bandwidth": "10Gb/s", "latency": "30us",
//                       "cards": ["card 0", "card 1"]},
//     "links": [
//       {"from": "host0/V100.0", "to": ["host0/V100.7"], "bandwidth": "1GB/s",
//        "uses": [{"resource": "card 0", "direction": "up"}]},
//       {"from": "host0/V100.1", "to": ["old"], "missing": true}
//     ]
//   }
//
// within_hosts and between_hosts connect all pairs; "links" override them. A
// link exists in both directions, using the same resources in the opposite
// direction, unless it is "one_way". This file reads; cluster_file_writer.cc
// writes.

#include <algorithm>
#include <unordered_map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/cluster/cluster_text.h"
#include "pipewright/cluster/presets.h"

namespace pipewright {
namespace {

using Names = std::unordered_map<std::string, int>;

class ClusterReader {
 public:
  ClusterReader(JsonCursor root, std::string name)
      : root_(std::move(root)), builder_(std::move(name)) {}

  void read() {
    read_kinds(root_.find("kinds"));
    read_devices(root_.at("devices"));
    read_resources(root_.find("resources"));
    read_within(root_.find("within_hosts"));
    read_between(root_.find("between_hosts"));
    if (JsonCursor links = root_.find("links"); links.exists())
      for (const JsonCursor& link : links.elements()) read_link(link);
    root_.refuse_other_keys();
  }

  Result<Cluster> build() { return builder_.build(); }

 private:
  struct DeviceRow {
    JsonCursor at;
    std::string kind;
    int host = 0;
    int count = 1;
  };

  void read_kinds(const JsonCursor& at) {
    if (!at.exists()) return;
    for (const JsonCursor& row : at.elements()) {
      DeviceKind kind = read_kind(row);
      const int index = builder_.add_kind(kind);
      if (!kinds_.emplace(kind.name, index).second)
        row.fail("duplicate kind \"" + kind.name + "\"");
    }
  }

  DeviceRow read_device(JsonCursor row) {
    DeviceRow device{row, row.at("kind").text(), 0, 1};
    if (JsonCursor host = row.find("host"); host.exists())
      device.host = static_cast<int>(host.integer(0, kMaxDevices - 1));
    if (JsonCursor count = row.find("count"); count.exists())
      device.count = static_cast<int>(count.integer(1, kMaxDevices));
    if (JsonCursor name = row.find("name"); name.exists() && device.count > 1)
      name.fail("one name for " + std::to_string(device.count) + " devices",
                "omit \"name\" or \"count\"");
    row.refuse_other_keys();
    return device;
  }

  void read_devices(const JsonCursor& at) {
    std::vector<DeviceRow> rows;
    int count = 0;
    for (const JsonCursor& row : at.elements()) {
      rows.push_back(read_device(row));
      count += rows.back().count;
      num_hosts_ = std::max(num_hosts_, rows.back().host + 1);
      if (count <= kMaxDevices) continue;
      row.fail("more than " + with_thousands(kMaxDevices) + " devices");
      return;
    }
    if (rows.empty()) at.fail("the cluster has no devices");
    hosts_.resize(num_hosts_);
    for (DeviceRow& row : rows) add_devices(row, count);
  }

  void add_devices(DeviceRow& row, int num_devices) {
    const int kind = find_kind_index(row, num_devices);
    if (kind < 0) return;
    for (int i = 0; i < row.count; ++i) {
      JsonCursor given = row.at.find("name");
      const int index = next_[{row.host, kind}]++;
      const std::string name =
          given.exists() ? given.text()
                         : device_name(row.kind, index, row.host, num_hosts_);
      const DeviceId device = builder_.add_device({name, kind, row.host});
      hosts_[row.host].push_back(device);
      if (!devices_.emplace(name, device.value).second)
        row.at.fail("duplicate name \"" + name + "\"");
    }
  }

  int find_kind_index(DeviceRow& row, int num_devices) {
    if (auto own = kinds_.find(row.kind); own != kinds_.end())
      return own->second;
    auto preset = find_kind(row.kind, num_devices);
    if (!preset) {
      row.at.at("kind").fail(preset.error().message, preset.error().hint);
      return -1;
    }
    row.kind = preset->kind.name;
    const auto [known, is_new] = kinds_.emplace(row.kind, 0);
    if (is_new) known->second = builder_.add_kind(preset->kind);
    return known->second;
  }

  void read_resources(const JsonCursor& at) {
    if (!at.exists()) return;
    for (JsonCursor row : at.elements()) {
      SharedResource resource;
      resource.name = row.at("name").text();
      resource.bandwidth = read_bandwidth(row.at("bandwidth"));
      resource.duplex = read_duplex(row.find("duplex"));
      row.refuse_other_keys();
      const int index = builder_.add_resource(resource);
      if (!resources_.emplace(resource.name, index).second)
        row.fail("duplicate name \"" + resource.name + "\"");
    }
  }

  // The index of a name, or -1 and an error.
  int find_name(const Names& names, const JsonCursor& at, const char* what) {
    const std::string name = at.text();
    if (!at.is_text()) return -1;
    if (auto found = names.find(name); found != names.end())
      return found->second;
    std::string near;
    if (++num_hints_ <= 10) {  // nobody reads more
      std::vector<std::string> known;
      for (const auto& [known_name, index] : names) known.push_back(known_name);
      near = nearest_name(name, known);
    }
    at.fail("unknown " + std::string(what) + " \"" + name + "\"",
            near.empty() ? "" : "did you mean \"" + near + "\"?");
    return -1;
  }

  Link read_link_keys(JsonCursor& at) {
    Link link;
    link.bandwidth = read_bandwidth(at.at("bandwidth"));
    if (JsonCursor latency = at.find("latency"); latency.exists())
      link.latency = read_latency(latency);
    link.duplex = read_duplex(at.find("duplex"));
    link.rates = read_message_rates(at.find("rates"));
    link.collective_rates = read_message_rates(at.find("collective_rates"));
    return link;
  }

  void read_uses(const JsonCursor& at, Link& link) {
    if (!at.exists()) return;
    for (JsonCursor row : at.elements()) {
      const int resource =
          find_name(resources_, row.at("resource"), "resource");
      JsonCursor direction = row.at("direction");
      const std::string word = direction.text();
      if (direction.is_text() && word != "up" && word != "down")
        direction.fail("expected \"up\" or \"down\", found \"" + word + "\"");
      row.refuse_other_keys();
      if (resource >= 0) link.uses.push_back({resource, word == "up"});
    }
    std::sort(link.uses.begin(), link.uses.end());
  }

  void read_within(JsonCursor at) {
    if (!at.exists()) return;
    Link link = read_link_keys(at);
    at.refuse_other_keys();
    for (const auto& host : hosts_)
      if (host.size() > 1) builder_.connect(host, host, link);
  }

  std::vector<int> read_cards(const JsonCursor& at) {
    std::vector<int> cards(hosts_.size(), -1);
    if (!at.exists()) return cards;
    const auto rows = at.elements();
    if (rows.size() != hosts_.size())
      at.fail(std::to_string(rows.size()) + " cards for " +
                  std::to_string(hosts_.size()) + " hosts",
              "write null for a host without a card");
    for (std::size_t h = 0; h < rows.size() && h < cards.size(); ++h)
      if (!rows[h].json()->is_null())
        cards[h] = find_name(resources_, rows[h], "resource");
    return cards;
  }

  void read_between(JsonCursor at) {
    if (!at.exists()) return;
    const Link plain = read_link_keys(at);
    const std::vector<int> cards = read_cards(at.find("cards"));
    at.refuse_other_keys();
    for (std::size_t a = 0; a < hosts_.size(); ++a)
      for (std::size_t b = 0; b < hosts_.size(); ++b) {
        if (a == b || hosts_[a].empty() || hosts_[b].empty()) continue;
        Link link = plain;
        if (cards[a] >= 0) link.uses.push_back({cards[a], true});
        if (cards[b] >= 0) link.uses.push_back({cards[b], false});
        std::sort(link.uses.begin(), link.uses.end());
        builder_.connect(hosts_[a], hosts_[b], link);
      }
  }

  void read_link(JsonCursor at) {
    const int from = find_name(devices_, at.at("from"), "device");
    std::vector<DeviceId> others;
    for (const JsonCursor& to : at.at("to").elements()) {
      const int other = find_name(devices_, to, "device");
      if (other >= 0 && other == from)
        to.fail("a link cannot connect a device to itself");
      if (other >= 0 && other != from) others.push_back(DeviceId(other));
    }
    JsonCursor missing = at.find("missing");
    const bool is_missing = missing.exists() && missing.boolean();
    Link link;
    bool one_way = false;
    if (!is_missing) {
      link = read_link_keys(at);
      read_uses(at.find("uses"), link);
      if (JsonCursor way = at.find("one_way"); way.exists())
        one_way = way.boolean();
    }
    at.refuse_other_keys();
    if (from < 0) return;
    for (DeviceId other : others) {
      if (is_missing)
        builder_.disconnect(DeviceId(from), other);
      else if (one_way)
        builder_.connect(DeviceId(from), other, link);
      else
        builder_.connect_both(DeviceId(from), other, link);
    }
  }

  JsonCursor root_;
  ClusterBuilder builder_;
  Names kinds_, devices_, resources_;
  std::map<std::pair<int, int>, int> next_;  // index by host and kind
  std::vector<std::vector<DeviceId>> hosts_;
  int num_hosts_ = 0;
  int num_hints_ = 0;
};

}  // namespace

Result<Cluster> parse_cluster(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  root.require_format("pipewright/cluster", 1);
  const std::string name = root.at("name").text();
  ClusterReader reader(root, name);
  reader.read();
  if (!errors.empty()) return errors.error();
  auto cluster = reader.build();
  if (cluster) return cluster;
  Error error = cluster.error();
  error.where = error.where.empty() ? file : file + ": " + error.where;
  return error;
}

}  // namespace pipewright
