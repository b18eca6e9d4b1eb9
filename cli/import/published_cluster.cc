#include "cli/import/published_cluster.h"

#include <algorithm>
#include <map>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/cluster/cluster_text.h"
#include "pipewright/cluster/presets.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/network_tables.h"

namespace pipewright::cli {
namespace {

constexpr int kGpusPerHost = 8;  // where the source does not say

NetworkEnd end_of(const PublishedGroup& group) {
  return {group.kind, group.degree, group.zone};
}

class PublishedCluster {
 public:
  PublishedCluster(const Imported& imported, const PublishedPlan& plan,
                   const std::vector<PublishedGroup>& groups)
      : imported_(imported),
        plan_(plan),
        groups_(groups),
        tables_(imported.bandwidths),
        builder_(plan.source) {}

  Result<PublishedHosts> build() {
    place();
    if (Result<void> added = add_kinds(); !added) return added.error();
    for (std::size_t g = 0; g < groups_.size(); ++g)
      builder_.add_device(
          {device_name(kind_name(g), index_on_host_[g], host_[g], num_hosts_),
           kind_of_.at(kind_name(g)), host_[g]});
    add_cards();
    for (std::size_t a = 0; a < groups_.size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (Result<void> linked = connect(a, b); !linked) return linked.error();
    PIPEWRIGHT_TRY(Cluster cluster, builder_.build());
    notes_.insert(notes_.end(), tables_.notes().begin(), tables_.notes().end());
    return PublishedHosts{std::move(cluster), std::move(notes_)};
  }

 private:
  std::string kind_name(std::size_t g) const {
    return group_kind(groups_[g].kind, groups_[g].degree);
  }

  const ImportedDevices* machine_of(const std::string& kind) const {
    for (const ImportedDevices& devices : imported_.devices)
      if (devices.kind == kind) return &devices;
    return nullptr;
  }

  void place() {
    Hosts hosts = fill_hosts(kMaxDevices);
    const int wanted = plan_.hosts;
    if (wanted > 0 && hosts.count != wanted) {
      if (auto even = even_hosts(wanted)) {
        hosts = std::move(*even);
      } else {
        notes_.push_back("assumed: the groups fill " +
                         counted(hosts.count, "host") + "; " + plan_.source +
                         " has N = " + std::to_string(wanted) +
                         ", and they cannot fill as many equally");
      }
    }
    num_hosts_ = hosts.count;
    host_ = std::move(hosts.of_group);
    std::map<std::pair<int, std::string>, int> next;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      index_on_host_.push_back(next[{host_[g], kind_name(g)}]++);
  }

  struct Hosts {
    int count = 0;
    std::vector<int> of_group;
    bool are_full = true;
  };

  // One host of a kind after the other, each with at most so many GPUs.
  Hosts fill_hosts(int most) const {
    struct Open {
      int host = -1;
      int free = 0;
    };
    Hosts hosts;
    std::map<std::string, Open> open;
    for (const PublishedGroup& group : groups_) {
      Open& host = open[group.kind + "@" + group.zone];
      if (host.free < group.degree) {
        if (host.free != 0) hosts.are_full = false;
        host = {hosts.count++, std::min(most, gpus_per_host(group.kind))};
      }
      host.free -= group.degree;
      hosts.of_group.push_back(host.host);
    }
    for (const auto& [kind, host] : open)
      if (host.free != 0) hosts.are_full = false;
    return hosts;
  }

  // So many hosts with equally many GPUs.
  std::optional<Hosts> even_hosts(int count) const {
    int gpus = 0;
    for (const PublishedGroup& group : groups_) gpus += group.degree;
    if (gpus % count != 0) return std::nullopt;
    const int each = gpus / count;
    for (const PublishedGroup& group : groups_)
      if (each > gpus_per_host(group.kind)) return std::nullopt;
    Hosts hosts = fill_hosts(each);
    if (hosts.count != count || !hosts.are_full) return std::nullopt;
    return hosts;
  }

  int gpus_per_host(const std::string& kind) const {
    const ImportedDevices* machine = machine_of(kind);
    return machine ? machine->count : kGpusPerHost;
  }

  Result<void> add_kinds() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (kind_of_.count(kind_name(g))) continue;
      PIPEWRIGHT_TRY(const Bytes memory, memory_of(groups_[g].kind));
      DeviceKind kind;
      kind.name = kind_name(g);
      kind.memory = memory * groups_[g].degree;
      kind.overlap = plan_.blocks ? 0 : 1;
      if (const auto base = plan_.base_memory.find(kind.name);
          base != plan_.base_memory.end())
        kind.base_memory = base->second * groups_[g].degree;
      kind.gradient_overhead = plan_.gradient_overhead;
      kind.source = plan_.source;
      kind_of_[kind.name] = builder_.add_kind(kind);
    }
    return {};
  }

  Result<Bytes> memory_of(const std::string& kind) const {
    const ImportedDevices* machine = machine_of(kind);
    if (machine && machine->memory > Bytes(0)) return machine->memory;
    if (auto preset = find_kind(kind)) return preset->kind.memory;
    return bad_configuration(
        "the files do not give the memory of " + kind,
        "import the file that describes the machines too, or give the cluster "
        "with --on CLUSTER");
  }

  void add_cards() {
    card_.assign(static_cast<std::size_t>(num_hosts_), -1);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      int& card = card_[static_cast<std::size_t>(host_[g])];
      const BytesPerSecond rate = tables_.of_host(groups_[g].kind);
      if (card >= 0 || num_hosts_ < 2 || rate.value() <= 0) continue;
      card = builder_.add_resource(
          {"host" + std::to_string(host_[g]) + " network", rate, Duplex::Full});
    }
  }

  Result<void> connect(std::size_t a, std::size_t b) {
    const bool same_host = host_[a] == host_[b];
    const BandwidthTable* table =
        same_host ? tables_.within_host(groups_[a].kind, 2 * groups_[a].degree)
                  : tables_.between(end_of(groups_[a]), end_of(groups_[b]));
    if (!table)
      return bad_configuration(
          "the files give no rate " +
              (same_host ? "within a host of " + groups_[a].kind
                         : "between " + gpus_text(end_of(groups_[a])) +
                               " and " + gpus_text(end_of(groups_[b]))),
          "import the files of network curves too, or give the cluster with "
          "--on CLUSTER");
    Link link;
    link.bandwidth = NetworkTables::largest_rate(*table);
    link.rates = rates_of(*table);
    if (!same_host) {
      use_card(host_[a], true, link);
      use_card(host_[b], false, link);
      std::sort(link.uses.begin(), link.uses.end());
    } else if (groups_[a].stage == groups_[b].stage) {
      add_collective_rates(a, *table, link);
    }
    builder_.connect_both(DeviceId(a), DeviceId(b), link);
    return {};
  }

  // Where more GPUs take part in a sum than in a message between two groups.
  void add_collective_rates(std::size_t g, const BandwidthTable& of_messages,
                            Link& link) const {
    const BandwidthTable* table =
        tables_.within_host(groups_[g].kind, gpus_of_stage(g));
    if (!table || table == &of_messages) return;
    link.collective_rates = rates_of(*table);
    link.bandwidth =
        std::max(link.bandwidth, NetworkTables::largest_rate(*table));
  }

  // On the group's host.
  int gpus_of_stage(std::size_t g) const {
    int gpus = 0;
    for (std::size_t other = 0; other < groups_.size(); ++other)
      if (host_[other] == host_[g] && groups_[other].stage == groups_[g].stage)
        gpus += groups_[other].degree;
    return gpus;
  }

  void use_card(int host, bool upstream, Link& link) const {
    const int card = card_[static_cast<std::size_t>(host)];
    if (card >= 0) link.uses.push_back({card, upstream});
  }

  const Imported& imported_;
  const PublishedPlan& plan_;
  const std::vector<PublishedGroup>& groups_;
  NetworkTables tables_;
  ClusterBuilder builder_;
  std::vector<std::string> notes_;
  int num_hosts_ = 0;
  std::vector<int> host_, index_on_host_;  // of each group
  std::vector<int> card_;                  // of each host; -1: none
  std::map<std::string, int> kind_of_;
};

// The degree of a replica; the source may give one for each layer instead.
Result<int> degree_of(const PublishedStage& stage, std::size_t replica,
                      const std::string& where) {
  const std::vector<int>& degrees = stage.tensor_parallel;
  if (degrees.empty()) return 1;
  if (degrees.size() == static_cast<std::size_t>(stage.replicas))
    return degrees[replica];
  for (int degree : degrees)
    if (degree != degrees.front())
      return bad_configuration(
          where +
          ": layers of one stage have different tensor-parallel "
          "degrees, and a stage has one device per replica here");
  return degrees.front();
}

}  // namespace

Result<std::vector<PublishedGroup>> groups_of(const PublishedPlan& plan,
                                              const std::string& kind) {
  std::vector<PublishedGroup> groups;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PublishedStage& stage = plan.stages[s];
    for (std::size_t r = 0; r < static_cast<std::size_t>(stage.replicas); ++r) {
      PublishedGroup group;
      group.stage = static_cast<int>(s);
      group.kind = stage.devices.empty() ? kind : stage.devices[r];
      if (!stage.zones.empty()) group.zone = stage.zones[r];
      PIPEWRIGHT_TRY(group.degree, degree_of(stage, r, plan.source));
      if (group.kind.find('+') != std::string::npos)
        return bad_configuration(plan.source + ": a tensor-parallel group of " +
                                 group.kind +
                                 " has GPUs of several kinds; here a group is "
                                 "one device of one kind");
      groups.push_back(std::move(group));
      if (groups.size() > kMaxDevices)
        return bad_configuration(plan.source + ": more than " +
                                 std::to_string(kMaxDevices) + " replicas");
    }
  }
  return groups;
}

Result<PublishedHosts> published_cluster(
    const Imported& imported, const PublishedPlan& plan,
    const std::vector<PublishedGroup>& groups) {
  return PublishedCluster(imported, plan, groups).build();
}

Result<Cluster> published_cluster(const ImportedDevices& devices,
                                  const std::string& source) {
  if (devices.count > kMaxDevices)
    return bad_configuration(std::to_string(devices.count) +
                             " devices; the limit is " +
                             std::to_string(kMaxDevices));
  ClusterBuilder builder(source);
  DeviceKind kind;
  kind.name = devices.kind;
  kind.memory = devices.memory;
  kind.source = source;
  const int index = builder.add_kind(kind);
  std::vector<DeviceId> all;
  for (int d = 0; d < devices.count; ++d)
    all.push_back(
        builder.add_device({device_name(kind.name, d, 0, 1), index, 0}));
  if (devices.bandwidth.value() > 0)
    builder.connect(all, all,
                    {devices.bandwidth, Seconds(0), Duplex::Full, {}});
  return builder.build();
}

}  // namespace pipewright::cli
