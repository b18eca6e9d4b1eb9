#include "cli/import/measured_links.h"

#include <algorithm>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"

namespace pipewright::cli {
namespace {

struct Machines {
  int hosts = 0;
  int gpus = 0;  // of each host; 0: not known, or not the same
};

// "2x8" and what may follow a space.
Machines machines_of(const BandwidthTable& table) {
  const std::string_view name =
      std::string_view(table.from).substr(0, table.from.find(' '));
  const auto parts = split(name, 'x');
  if (parts.size() != 2) return {};
  const auto hosts = parse_integer(parts[0]), gpus = parse_integer(parts[1]);
  if (!hosts || !gpus) return {};
  return {static_cast<int>(*hosts), static_cast<int>(*gpus)};
}

Machines machines_of(const Cluster& cluster) {
  std::vector<int> gpus(static_cast<std::size_t>(cluster.num_hosts()));
  for (const Device& device : cluster.devices())
    ++gpus[static_cast<std::size_t>(device.host)];
  const bool are_equal = std::equal(gpus.begin() + 1, gpus.end(), gpus.begin());
  return {cluster.num_hosts(), are_equal ? gpus.front() : 0};
}

bool has_sizes(const BandwidthTable& table) {
  return !table.points.empty() && table.points.front().message > Bytes(0);
}

// nccl-tests' averages are of what each GPU sends in a ring, and so are ours.
// Where sizes are given, the source has the time of the whole sum: of its
// bytes, each of r GPUs sends 2 (r - 1) / r, in pieces of one r-th.
MessageRates ring_rates(const BandwidthTable& table) {
  MessageRates rates;
  for (BandwidthPoint point : table.points) {
    const double r = table.devices;
    if (!has_sizes(table)) return {{Bytes(1), point.rate}};
    rates.push_back({Bytes(std::max<std::int64_t>(
                         1, point.message.value() / table.devices)),
                     point.rate * (2 * (r - 1) / r)});
  }
  return rates;
}

BytesPerSecond largest_in(const MessageRates& rates) {
  BytesPerSecond largest(0);
  for (const MessageRate& rate : rates) largest = std::max(largest, rate.rate);
  return largest;
}

class LinkMeasurements {
 public:
  LinkMeasurements(const Cluster& given,
                   const std::vector<PublishedStage>& stages,
                   const std::vector<BandwidthTable>& tables)
      : given_(given),
        tables_(tables),
        machines_(machines_of(given)),
        hosts_of_(stages.size()) {
    for (std::size_t s = 0; s < stages.size(); ++s)
      for (int r = 0; r < stages[s].replicas; ++r) {
        hosts_of_[s].insert(host_of(stage_of_.size()));
        stage_of_.push_back(s);
      }
    for (std::size_t s = 0; s < stages.size(); ++s)
      sums_.push_back(sums(s, stages[s].replicas));
    for (int host = 0; host < machines_.hosts; ++host)
      within_.push_back(messages(1, stages_on(host)));
    across_ = messages(machines_.hosts, static_cast<int>(stages.size()));
  }

  Result<MeasuredLinks> apply() {
    ClusterBuilder builder(given_.name());
    for (const DeviceKind& kind : given_.kinds()) builder.add_kind(kind);
    add_resources(builder);
    for (const Device& device : given_.devices()) builder.add_device(device);
    for (std::size_t a = 0; a < given_.devices().size(); ++a)
      for (std::size_t b = 0; b < given_.devices().size(); ++b)
        if (const Link* link =
                a == b ? nullptr : given_.link(DeviceId(a), DeviceId(b)))
          builder.connect(DeviceId(a), DeviceId(b), measured(*link, a, b));
    PIPEWRIGHT_TRY(Cluster cluster, builder.build());
    return MeasuredLinks{std::move(cluster), notes()};
  }

 private:
  int host_of(std::size_t device) const {
    return given_.devices()[device].host;
  }

  // What links between hosts share has at least what was measured there.
  void add_resources(ClusterBuilder& builder) const {
    std::set<int> between_hosts;
    for (std::size_t a = 0; a < given_.devices().size(); ++a)
      for (std::size_t b = 0; b < a; ++b)
        if (const Link* link = host_of(a) == host_of(b)
                                   ? nullptr
                                   : given_.link(DeviceId(a), DeviceId(b)))
          for (const Link::Use& use : link->uses)
            between_hosts.insert(use.resource);
    int index = 0;
    for (SharedResource resource : given_.resources()) {
      if (between_hosts.count(index++))
        resource.bandwidth = std::max(resource.bandwidth, of_hosts());
      builder.add_resource(resource);
    }
  }

  Link measured(Link link, std::size_t a, std::size_t b) {
    if (a >= stage_of_.size() || b >= stage_of_.size()) return link;
    if (stage_of_[a] == stage_of_[b]) return with_sums(link, stage_of_[a]);
    const int host = host_of(a);
    const BandwidthTable* table =
        host == host_of(b) ? within_[static_cast<std::size_t>(host)] : across_;
    if (!table) return link;
    used_.insert(table);
    link.rates.clear();
    link.bandwidth = table->points.front().rate;
    if (has_sizes(*table)) {
      link.rates = table->points;
      link.bandwidth = largest_in(link.rates);
    }
    link.collective_rates.clear();
    return link;
  }

  // Times by size contain the latency.
  Link with_sums(Link link, std::size_t stage) {
    const BandwidthTable* table = sums_[stage];
    if (!table) return link;
    used_.insert(table);
    if (has_sizes(*table)) link.latency = Seconds(0);
    link.collective_rates = ring_rates(*table);
    if (link.rates.empty()) link.rates = {{Bytes(1), link.bandwidth}};
    link.bandwidth =
        std::max(link.bandwidth, largest_in(link.collective_rates));
    return link;
  }

  // Consecutive GPUs, as many as the stage has replicas, on as many hosts.
  const BandwidthTable* sums(std::size_t stage, int replicas) const {
    const BandwidthTable* best = nullptr;
    for (const BandwidthTable& table : tables_) {
      const Machines on = machines_of(table);
      const int hosts = static_cast<int>(hosts_of_[stage].size());
      const bool fits = table.operation == "all_reduce" &&
                        !table.from.ends_with("strided") &&
                        table.devices == replicas && on.gpus > 0 &&
                        on.gpus == machines_.gpus && on.hosts >= hosts &&
                        hosts == (table.devices - 1) / on.gpus + 1;
      if (fits && (!best || has_sizes(table))) best = &table;
    }
    return best;
  }

  // A ring through all stages is as slow as its slowest link: within a host
  // only a ring of one host says anything.
  const BandwidthTable* messages(int hosts, int stages) const {
    for (const BandwidthTable& table : tables_) {
      const Machines on = machines_of(table);
      if (table.operation == "p2p" && on.gpus > 0 &&
          on.gpus == machines_.gpus && on.hosts == hosts &&
          table.devices == stages)
        return &table;
    }
    return nullptr;
  }

  int stages_on(int host) const {
    return static_cast<int>(std::count_if(
        hosts_of_.begin(), hosts_of_.end(),
        [&](const std::set<int>& hosts) { return hosts.count(host) > 0; }));
  }

  // What the GPUs of a host reach together.
  BytesPerSecond of_hosts() const {
    BytesPerSecond largest(0);
    for (const BandwidthTable& table : tables_) {
      const Machines on = machines_of(table);
      if (on.hosts < 2 || on.gpus < 1 || on.gpus != machines_.gpus) continue;
      if (table.operation == "p2p")
        largest = std::max(largest, largest_in(table.points));
      if (table.operation == "all_reduce" &&
          (table.devices > on.gpus || table.from.ends_with("strided")))
        largest = std::max(largest, largest_in(ring_rates(table)));
    }
    return largest;
  }

  static std::string text_of(const BandwidthTable& table) {
    return table.operation + " of " + counted(table.devices, "GPU") +
           (table.from.empty() ? "" : " (" + table.from + ")");
  }

  // Sailor's files have hundreds.
  static std::string text_of(const std::vector<std::string>& tables) {
    constexpr std::size_t kMaxNamed = 6;
    if (tables.size() <= kMaxNamed) return join(tables, ", ");
    return join(std::span(tables).first(kMaxNamed), ", ") + " and " +
           std::to_string(tables.size() - kMaxNamed) + " more";
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> used, unused;
    for (const BandwidthTable& table : tables_)
      (used_.count(&table) ? used : unused).push_back(text_of(table));
    std::vector<std::string> notes;
    if (!used.empty())
      notes.push_back("used: measured rates in place of the cluster's: " +
                      text_of(used));
    if (!unused.empty())
      notes.push_back("not used: measured rates of no link of the plan: " +
                      text_of(unused));
    return notes;
  }

  const Cluster& given_;
  const std::vector<BandwidthTable>& tables_;
  const Machines machines_;
  std::vector<std::set<int>> hosts_of_;  // of each stage
  std::vector<std::size_t> stage_of_;    // of each device in use
  // What was measured for the sums of each stage, for messages within each host
  // and between hosts; null: nothing.
  std::vector<const BandwidthTable*> sums_, within_;
  const BandwidthTable* across_ = nullptr;
  std::set<const BandwidthTable*> used_;
};

}  // namespace

Result<MeasuredLinks> with_measured_rates(
    const Cluster& given, const std::vector<PublishedStage>& stages,
    const std::vector<BandwidthTable>& tables) {
  return LinkMeasurements(given, stages, tables).apply();
}

}  // namespace pipewright::cli
