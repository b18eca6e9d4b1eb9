#include "pipewright/planners/auto/host_stages.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"
#include "pipewright/planners/bounds/islands.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/cut_positions.h"

namespace pipewright {
namespace {

constexpr int kMaxHostCuts = 100;
constexpr int kReductionLimits = 16;       // values of R that are tried
constexpr double kReductionFactor = 0.87;  // from one to the next
constexpr int kHalvings = 9;
constexpr int kMinMicrobatches = 4, kMaxMicrobatches = 16;
constexpr int kTooManyHosts = 1 << 20;
// Slow links are hidden behind computation.
constexpr const char* kSchedule = "1f1b-so";

// A stage's end, as an index of a cut, and its hosts.
struct HostStage {
  int end = 0, hosts = 0;
};
using HostStages = std::vector<HostStage>;

// Gives each stage its number of hosts, one after the other.
void set_hosts(Pipeline& pipeline, const std::vector<int>& hosts,
               int per_host) {
  int device = 0;
  for (std::size_t s = 0; s < hosts.size(); ++s) {
    pipeline.stages[s].devices.clear();
    for (int i = 0; i < hosts[s] * per_host; ++i)
      pipeline.stages[s].devices.push_back(DeviceId(device++));
  }
}

// The search at one microbatch size.
class HostSearch {
 public:
  HostSearch(const CostTable& costs, const Problem& group, int microbatch,
             int copies, const Islands& islands)
      : costs_(costs),
        copies_(copies),
        microbatch_(microbatch),
        samples_(static_cast<double>(group.minibatch) * copies /
                 costs.microbatch()),
        islands_(islands),
        cuts_(cut_positions(costs, 0, kMaxHostCuts)) {}

  // The stages with the smallest M whose reductions take at most R.
  HostStages stages(double R, double& M) const {
    double high = M,
           low = std::max(load(0, last()) / (2 * islands_.count), 1e-9 * high);
    HostStages best = stages_within(R, high);
    if (best.empty()) return best;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      HostStages found = stages_within(R, middle);
      (found.empty() ? low : high) = middle;
      if (!found.empty()) best = std::move(found);
    }
    M = high;
    give_spare_hosts(best);
    return best;
  }

  double longest_reduction() const {
    return reduction(0, last(), islands_.count);
  }
  double longest_reduction(const HostStages& stages) const {
    double longest = 0;
    int first = 0;
    for (const HostStage& stage : stages) {
      longest = std::max(longest, reduction(first, stage.end, stage.hosts));
      first = stage.end;
    }
    return longest;
  }
  // Of all layers on one host.
  double largest_load() const { return load(0, last()) * copies_ + 1; }

  Pipeline pipeline(const HostStages& stages) const {
    Pipeline pipeline;
    pipeline.microbatch = microbatch_;
    pipeline.schedule = kSchedule;
    std::vector<int> hosts;
    for (const HostStage& each : stages) {
      pipeline.stages.push_back({cuts_[at(each.end)], -1, {}, false});
      hosts.push_back(each.hosts);
    }
    set_hosts(pipeline, hosts, islands_.max_devices);
    return pipeline;
  }

 private:
  int last() const { return static_cast<int>(cuts_.size()) - 1; }

  // Seconds of one host per group for the layers between two cuts: to compute
  // them, or to send what crosses their ends.
  double load(int first, int end) const {
    const double compute =
        costs_.compute(0, cuts_[at(first)], cuts_[at(end)]).value() /
        islands_.max_devices;
    double bytes = 0;
    for (int cut : {first, end})
      if (cut > 0 && cut < last())
        bytes += static_cast<double>(costs_.crossing(cuts_[at(cut)]).value());
    return std::max(compute, bytes / islands_.outside) * samples_ / copies_;
  }

  // Over the network cards; within one host it is not counted.
  double reduction(int first, int end, int hosts) const {
    const double k = static_cast<double>(hosts) * copies_;
    if (k < 2) return 0;
    const double r = k * islands_.max_devices;
    const auto bytes = static_cast<double>(
        costs_.parameters(cuts_[at(first)], cuts_[at(end)]).value());
    return 2 * (r - 1) / r * bytes / islands_.outside +
           2 * (r - 1) * islands_.latency;
  }

  int hosts_for(int first, int end, double R, double M) const {
    const double needed = std::ceil(load(first, end) / M - 1e-9);
    if (needed > islands_.count) return kTooManyHosts;
    const int hosts = std::max(1, static_cast<int>(needed));
    const bool can_split = hosts * islands_.max_devices <= microbatch_;
    return can_split && reduction(first, end, hosts) <= R ? hosts
                                                          : kTooManyHosts;
  }

  // Empty if the hosts are too few.
  HostStages stages_within(double R, double M) const {
    struct Cell {
      int hosts = kTooManyHosts, stages = 0, from = -1;
    };
    std::vector<Cell> cells(cuts_.size());
    cells[0].hosts = 0;
    for (int end = 1; end <= last(); ++end)
      for (int first = 0; first < end; ++first) {
        const Cell& before = cells[at(first)];
        if (before.hosts >= islands_.count) continue;
        const int hosts = before.hosts + hosts_for(first, end, R, M);
        Cell& cell = cells[at(end)];
        if (std::pair(hosts, before.stages + 1) <
            std::pair(cell.hosts, cell.stages))
          cell = {hosts, before.stages + 1, first};
      }
    HostStages stages;
    if (cells.back().hosts > islands_.count) return stages;
    for (int end = last(); end > 0; end = cells[at(end)].from)
      stages.push_back(
          {end, cells[at(end)].hosts - cells[at(cells[at(end)].from)].hosts});
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  // One after the other to the stage with the largest load.
  void give_spare_hosts(HostStages& stages) const {
    int spare = islands_.count;
    for (const HostStage& stage : stages) spare -= stage.hosts;
    for (; spare > 0; --spare) {
      std::size_t slowest = 0;
      double largest = -1;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        const int first = s == 0 ? 0 : stages[s - 1].end;
        const double own = load(first, stages[s].end) / stages[s].hosts;
        if (own > largest) slowest = s;
        largest = std::max(largest, own);
      }
      ++stages[slowest].hosts;
    }
  }

  const CostTable& costs_;
  const int copies_, microbatch_;
  const double samples_;  // of a minibatch of all groups, in microbatches of
                          // the table
  const Islands& islands_;
  const std::vector<int> cuts_;
};

void add_pipelines(const Problem& group, int microbatch, int copies,
                   const Islands& islands, std::vector<HostPipeline>& all) {
  // A replica's share of a microbatch, if a stage is on a quarter of the hosts.
  const int share = std::max(1, 4 * microbatch / group.cluster->num_devices());
  const auto costs = CostTable::create(*group.profile, *group.cluster, share);
  if (!costs) return;
  const HostSearch search(*costs, group, microbatch, copies, islands);
  const double microbatches = group.minibatch / microbatch;
  double R = search.longest_reduction();
  for (int i = 0; i < kReductionLimits; ++i, R *= kReductionFactor) {
    double M = search.largest_load();
    const HostStages stages = search.stages(R, M);
    if (stages.empty()) return;
    const double filling = static_cast<double>(stages.size() - 1);
    all.push_back(
        {search.pipeline(stages), Seconds(M * (1 + filling / microbatches) +
                                          search.longest_reduction(stages))});
  }
}

}  // namespace

std::vector<HostPipeline> host_pipelines(const Problem& group, int copies) {
  std::vector<HostPipeline> all;
  const Cluster& cluster = *group.cluster;
  if (cluster.num_hosts() < 2 || cluster.kinds().size() != 1 ||
      is_asynchronous(group.method))
    return all;
  const std::vector<Islands> islands = islands_of(cluster);
  if (islands.empty()) return all;
  for (int microbatch : group.microbatches) {
    const int count = group.minibatch / microbatch;
    if (count >= kMinMicrobatches && count <= kMaxMicrobatches)
      add_pipelines(group, microbatch, copies, islands.front(), all);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const HostPipeline& a, const HostPipeline& b) {
                     return a.predicted < b.predicted;
                   });
  return all;
}

std::vector<Pipeline> with_moved_host(const Pipeline& pipeline, int per_host) {
  std::vector<int> hosts;
  for (const PipelineStage& stage : pipeline.stages)
    hosts.push_back(static_cast<int>(stage.devices.size()) / per_host);
  std::vector<Pipeline> moved;
  const auto most = std::max_element(hosts.begin(), hosts.end());
  if (hosts.empty() || *most < 2) return moved;
  for (auto to = hosts.begin(); to != hosts.end(); ++to) {
    if (to == most) continue;
    --*most;
    ++*to;
    moved.push_back(pipeline);
    set_hosts(moved.back(), hosts, per_host);
    ++*most;
    --*to;
  }
  return moved;
}

}  // namespace pipewright
