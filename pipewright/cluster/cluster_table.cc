#include "pipewright/cluster/cluster_table.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/presets.h"

namespace pipewright {
namespace {

using Align = TextTable::Align;
constexpr int kMaxMatrixDevices = 8;

// {0, 1, 2, 5} becomes "0 to 2, 5".
std::string ranges(const std::vector<int>& numbers) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    std::string part = std::to_string(numbers[i]);
    if (end - i > 1) part += " to " + std::to_string(numbers[end - 1]);
    parts.push_back(part);
    i = end;
  }
  return join(parts, ", ");
}

std::string rate_in(const std::map<std::string, FlopsPerSecond>& rates) {
  auto rate = rates.find("float32");
  if (rate == rates.end()) rate = rates.begin();
  return rate == rates.end() ? "unknown" : to_text(rate->second);
}

std::string execution_text(const DeviceKind& kind) {
  return kind.execution == ExecutionClass::Async ? "async" : "sync";
}

std::string on_chip_text(const DeviceKind& kind) {
  return kind.on_chip_memory > Bytes(0) ? to_text(kind.on_chip_memory) : "";
}

// Hosts grouped by their devices: kind and count, in the order of the devices.
using Holding = std::vector<std::pair<int, int>>;

std::map<Holding, std::vector<int>> hosts_by_holding(const Cluster& cluster) {
  std::vector<Holding> holdings(cluster.num_hosts());
  for (const Device& device : cluster.devices()) {
    Holding& holding = holdings[device.host];
    if (holding.empty() || holding.back().first != device.kind)
      holding.emplace_back(device.kind, 0);
    ++holding.back().second;
  }
  std::map<Holding, std::vector<int>> hosts;
  for (std::size_t h = 0; h < holdings.size(); ++h)
    if (!holdings[h].empty()) hosts[holdings[h]].push_back(static_cast<int>(h));
  return hosts;
}

std::string devices_text(const Cluster& cluster, int width) {
  TextTable table({{"host"},
                   {"devices"},
                   {"peak", Align::Right},
                   {"achievable", Align::Right},
                   {"memory", Align::Right},
                   {"bandwidth", Align::Right},
                   {"on chip", Align::Right},
                   {"execution"}});
  // Groups in the order of their first host.
  std::map<std::vector<int>, Holding> in_order;
  for (const auto& [holding, hosts] : hosts_by_holding(cluster))
    in_order[hosts] = holding;
  for (const auto& [hosts, holding] : in_order) {
    std::string host = ranges(hosts);
    const bool several = hosts.size() > 1;
    for (const auto& [index, count] : holding) {
      const DeviceKind& kind = cluster.kinds()[index];
      table.add_row(
          {std::exchange(host, ""),
           std::to_string(count) + " x " + kind.name +
               (several ? " per host" : ""),
           rate_in(kind.peak), rate_in(kind.achievable), to_text(kind.memory),
           kind.memory_bandwidth.value() > 0 ? to_text(kind.memory_bandwidth)
                                             : "unknown",
           on_chip_text(kind), execution_text(kind)});
    }
  }
  return table.to_text(width);
}

// Links that are equal except for which network cards they use.
struct LinkClass {
  bool same_host = true;
  bool exists = true;
  BytesPerSecond bandwidth;
  Seconds latency;
  Duplex duplex = Duplex::Full;
  std::size_t num_uses = 0;

  auto operator<=>(const LinkClass&) const = default;
};

std::map<LinkClass, std::int64_t> link_classes(const Cluster& cluster) {
  // A million pairs share few links: count per link index first, none at 0.
  std::vector<std::int64_t> counts[2];
  for (auto& count : counts) count.assign(cluster.links().size() + 1, 0);
  for (std::size_t a = 0; a < cluster.devices().size(); ++a)
    for (std::size_t b = 0; b < cluster.devices().size(); ++b) {
      if (a == b) continue;
      const int index = cluster.link_index(DeviceId(a), DeviceId(b));
      const bool same_host =
          cluster.devices()[a].host == cluster.devices()[b].host;
      ++counts[same_host][index + 1];
    }
  std::map<LinkClass, std::int64_t> classes;
  for (const bool same_host : {false, true})
    for (std::size_t i = 0; i < counts[same_host].size(); ++i) {
      if (counts[same_host][i] == 0) continue;
      LinkClass link_class{same_host, false, {}, {}, Duplex::Full, 0};
      if (i > 0) {
        const Link& link = cluster.links()[i - 1];
        link_class = {same_host,    true,        link.bandwidth,
                      link.latency, link.duplex, link.uses.size()};
      }
      classes[link_class] += counts[same_host][i];
    }
  return classes;
}

std::string classes_text(const Cluster& cluster, int width) {
  TextTable table({{"links"},
                   {"count", Align::Right},
                   {"bandwidth", Align::Right},
                   {"latency", Align::Right},
                   {"duplex"},
                   {"through"}});
  const auto classes = link_classes(cluster);
  // Links within hosts first, then by bandwidth.
  for (auto it = classes.rbegin(); it != classes.rend(); ++it) {
    const auto& [link, count] = *it;
    const std::string where =
        link.same_host ? "within a host" : "between hosts";
    if (!link.exists) {
      table.add_row({where, with_thousands(count), "no link"});
      continue;
    }
    table.add_row({where, with_thousands(count), to_text(link.bandwidth),
                   to_text(link.latency), to_text(link.duplex),
                   link.num_uses == 0
                       ? ""
                       : counted(static_cast<std::int64_t>(link.num_uses),
                                 "shared resource")});
  }
  return table.to_text(width);
}

// Consecutive equal resources become one row: "first to last (count)".
std::string resources_text(const Cluster& cluster, int width) {
  TextTable table(
      {{"shared resources"}, {"bandwidth", Align::Right}, {"duplex"}});
  const auto& resources = cluster.resources();
  for (std::size_t i = 0; i < resources.size();) {
    std::size_t end = i + 1;
    while (end < resources.size() &&
           resources[end].bandwidth == resources[i].bandwidth &&
           resources[end].duplex == resources[i].duplex)
      ++end;
    std::string name = resources[i].name;
    if (end - i > 1) name += " to " + resources[end - 1].name;
    if (end - i > 2) name += " (" + std::to_string(end - i) + ")";
    table.add_row(
        {name, to_text(resources[i].bandwidth), to_text(resources[i].duplex)});
    i = end;
  }
  return table.to_text(width);
}

std::string matrix_text(const Cluster& cluster, int width) {
  std::vector<TextTable::Column> columns{{"GB/s from row to column"}};
  for (int i = 0; i < cluster.num_devices(); ++i)
    columns.push_back({std::to_string(i), Align::Right});
  TextTable table(columns);
  for (std::size_t a = 0; a < cluster.devices().size(); ++a) {
    std::vector<std::string> cells{std::to_string(a) + "  " +
                                   cluster.devices()[a].name};
    for (std::size_t b = 0; b < cluster.devices().size(); ++b) {
      const Link* link = cluster.link(DeviceId(a), DeviceId(b));
      cells.push_back(a == b  ? "."
                      : !link ? "none"
                              : to_text(link->bandwidth.value() / 1e9));
    }
    table.add_row(std::move(cells));
  }
  return table.to_text(width);
}

std::string share_text(double share) { return to_text(share * 100) + " %"; }

std::string memory_text(const DeviceKind& kind) {
  std::vector<std::string> parts;
  if (kind.base_memory > Bytes(0))
    parts.push_back(to_text(kind.base_memory) + " of base memory");
  if (kind.fragmentation > 0)
    parts.push_back(share_text(kind.fragmentation) + " fragmentation");
  if (parts.empty()) return "";
  return join(parts, ", ") + ": programs can hold " +
         to_text(usable_memory(kind)) + " of " + to_text(kind.memory);
}

std::string time_text(const DeviceKind& kind) {
  std::vector<std::string> parts;
  if (kind.overlap < 1)
    parts.push_back(share_text(kind.overlap) +
                    " of a transfer overlaps with compute");
  if (kind.layer_overhead > 0)
    parts.push_back("layers take " + share_text(kind.layer_overhead) +
                    " longer than profiled");
  if (kind.gradient_overhead > Seconds(0))
    parts.push_back(to_text(kind.gradient_overhead) +
                    " more per backward of a layer with weights");
  if (kind.action_overhead > Seconds(0))
    parts.push_back(to_text(kind.action_overhead) + " more per action");
  if (kind.step_overhead > Seconds(0))
    parts.push_back(to_text(kind.step_overhead) + " more per step");
  return join(parts, ", ");
}

std::string source_text(const DeviceKind& kind) { return kind.source; }

// A line per kind of which there is something to say.
std::string lines_of_kinds(const Cluster& cluster,
                           std::string (*text_of)(const DeviceKind&)) {
  std::string text;
  for (const DeviceKind& kind : cluster.kinds())
    if (const std::string part = text_of(kind); !part.empty())
      text += kind.name + ": " + part + "\n";
  return text;
}

}  // namespace

std::string memory_note(const Cluster& cluster) {
  const std::string text = lines_of_kinds(cluster, memory_text);
  return text.empty() ? ""
                      : "memory: of programs, without what devices hold "
                        "beside them\n" +
                            text;
}

std::string time_overheads_text(const Cluster& cluster) {
  return lines_of_kinds(cluster, time_text);
}

std::string cluster_table(const Cluster& cluster, int width) {
  std::set<int> hosts;
  for (const Device& device : cluster.devices()) hosts.insert(device.host);
  std::string text = cluster.name() + ": " +
                     counted(cluster.num_devices(), "device") + " on " +
                     counted(static_cast<std::int64_t>(hosts.size()), "host") +
                     "\n\n" + devices_text(cluster, width);
  if (cluster.num_devices() > 1) text += "\n" + classes_text(cluster, width);
  if (!cluster.resources().empty())
    text += "\n" + resources_text(cluster, width);
  if (cluster.num_devices() <= kMaxMatrixDevices &&
      link_classes(cluster).size() > 1)
    text += "\n" + matrix_text(cluster, width);
  if (const std::string more =
          lines_of_kinds(cluster, memory_text) + time_overheads_text(cluster);
      !more.empty())
    text += "\n" + more;
  const std::string sources = lines_of_kinds(cluster, source_text);
  return sources.empty() ? text : text + "\n" + sources;
}

std::string presets_table(int width) {
  TextTable kinds({{"kind"},
                   {"peak", Align::Right},
                   {"achievable", Align::Right},
                   {"memory", Align::Right},
                   {"memory bandwidth", Align::Right},
                   {"on chip", Align::Right},
                   {"execution"},
                   {"default link"}});
  for (const KindPreset& preset : kind_presets()) {
    if (preset.is_this_machine) {
      kinds.add_row({preset.kind.name, "measured here", "", "", "", "",
                     execution_text(preset.kind), preset.default_link});
      continue;
    }
    const DeviceKind& kind = preset.kind;
    kinds.add_row({kind.name, rate_in(kind.peak), rate_in(kind.achievable),
                   to_text(kind.memory), to_text(kind.memory_bandwidth),
                   on_chip_text(kind), execution_text(kind),
                   preset.default_link});
  }
  TextTable links({{"link"},
                   {"bandwidth", Align::Right},
                   {"latency", Align::Right},
                   {"source"}});
  for (const LinkPreset& preset : link_presets())
    links.add_row({preset.name, to_text(preset.link.bandwidth),
                   to_text(preset.link.latency), preset.source});
  return kinds.to_text(width) + "\n" + links.to_text(width);
}

}  // namespace pipewright
