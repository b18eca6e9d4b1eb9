#include "pipewright/planners/auto/host_stages.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"
#include "pipewright/planners/auto/host_changes.h"

namespace pipewright {
namespace {

constexpr int kReductionLimits = 10;      // values of R that are tried
constexpr double kReductionFactor = 0.8;  // from one to the next
constexpr int kHalvings = 9;
constexpr int kMinMicrobatches = 4, kMaxMicrobatches = 32;
// Where hosts take turns: of all hosts of a group.
constexpr int kMinTurns = 32, kMaxTurns = 160;
constexpr int kTooManyHosts = 1 << 20;
constexpr std::size_t kMaxHostStages = 14, kMaxStagesInHost = 32;
// Stages per group of the first pipelines inside a host.
const std::vector<int> kHostRounds = {2, 4, 8};

// A change may make the step longer by this share of it, less and less.
constexpr double kFirstLoss = 0.02, kLastLoss = 0.002;
// The same of all kinds of changes, where hosts take turns and elsewhere.
constexpr double kFirstLossInTurns = 0.01, kFirstLossOfAll = 0.003;

// Consecutive layers with hosts of their own: the end, as an index of a cut.
struct HostPart {
  int end = 0, hosts = 0;
};
using HostParts = std::vector<HostPart>;

// Stages with the smallest M at one microbatch size.
class HostParting {
 public:
  HostParting(const HostCosts& costs, int microbatch)
      : costs_(costs), microbatch_(microbatch) {}

  // Those whose reductions take at most R; empty if there are none.
  HostParts stages(double R) const {
    double high = costs_.load(0, costs_.last()) + 1;
    double low = std::max(
        costs_.load(0, costs_.last()) / (2 * costs_.num_hosts()), 1e-9 * high);
    HostParts best = stages_within(R, high);
    if (best.empty()) return best;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = std::sqrt(low * high);
      HostParts found = stages_within(R, middle);
      (found.empty() ? low : high) = middle;
      if (!found.empty()) best = std::move(found);
    }
    give_spare_hosts(best);
    return best;
  }

 private:
  int hosts_for(int first, int end, double R, double M) const {
    const double needed = std::ceil(costs_.load(first, end) / M - 1e-9);
    if (needed > costs_.num_hosts()) return kTooManyHosts;
    const int hosts = std::max(1, static_cast<int>(needed));
    return costs_.can_split(microbatch_, hosts) &&
                   costs_.reduction(first, end, hosts) <= R
               ? hosts
               : kTooManyHosts;
  }

  // Empty if the hosts are too few.
  HostParts stages_within(double R, double M) const {
    struct Cell {
      int hosts = kTooManyHosts, stages = 0, from = -1;
    };
    std::vector<Cell> cells(at(costs_.last() + 1));
    cells[0].hosts = 0;
    for (int end = 1; end <= costs_.last(); ++end)
      for (int first = end; first-- > 0;) {
        // More layers take no less.
        if (costs_.compute(first, end) > M * costs_.num_hosts() ||
            costs_.reduction(first, end, 1) > R)
          break;
        const Cell& before = cells[at(first)];
        if (before.hosts >= costs_.num_hosts()) continue;
        const int hosts = before.hosts + hosts_for(first, end, R, M);
        Cell& cell = cells[at(end)];
        if (hosts < kTooManyHosts && std::pair(hosts, before.stages + 1) <=
                                         std::pair(cell.hosts, cell.stages))
          cell = {hosts, before.stages + 1, first};
      }
    HostParts stages;
    if (cells.back().hosts > costs_.num_hosts()) return stages;
    for (int end = costs_.last(); end > 0; end = cells[at(end)].from)
      stages.push_back(
          {end, cells[at(end)].hosts - cells[at(cells[at(end)].from)].hosts});
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  // One after the other to the stage with the largest load.
  void give_spare_hosts(HostParts& stages) const {
    int spare = costs_.num_hosts();
    for (const HostPart& stage : stages) spare -= stage.hosts;
    for (; spare > 0; --spare) {
      std::size_t slowest = 0;
      double largest = -1;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        const int first = s == 0 ? 0 : stages[s - 1].end;
        const double own = costs_.load(first, stages[s].end) / stages[s].hosts;
        if (own > largest) slowest = s;
        largest = std::max(largest, own);
      }
      ++stages[slowest].hosts;
    }
  }

  const HostCosts& costs_;
  const int microbatch_;
};

std::vector<int> few_microbatches(const HostCosts& costs) {
  const int least = costs.take_turns() ? kMinTurns : kMinMicrobatches;
  const int most = costs.take_turns() ? kMaxTurns : kMaxMicrobatches;
  std::vector<int> sizes = costs.microbatches();
  std::erase_if(sizes, [&](int microbatch) {
    const int count = costs.num_microbatches(microbatch);
    return count < least || count > most;
  });
  return sizes;
}

// One stage per group.
HostShape shape_of(const HostParts& parts, int microbatch) {
  HostShape shape;
  shape.microbatch = microbatch;
  for (const HostPart& part : parts) {
    shape.stages.push_back({part.end, static_cast<int>(shape.hosts.size())});
    shape.hosts.push_back(part.hosts);
  }
  return shape;
}

double longest_reduction(const HostParts& parts, const HostCosts& costs) {
  double longest = 0;
  int first = 0;
  for (const HostPart& part : parts) {
    longest = std::max(longest, costs.reduction(first, part.end, part.hosts));
    first = part.end;
  }
  return longest;
}

// For one microbatch size, at each of some limits on reductions.
std::vector<HostShape> shapes_at(int microbatch, const HostCosts& costs) {
  std::vector<HostShape> all;
  const HostParting search(costs, microbatch);
  double R = costs.reduction(0, costs.last(), costs.num_hosts());
  double longest = kInfinity;  // reduction of the last pipeline
  for (int i = 0; i < kReductionLimits; ++i, R *= kReductionFactor) {
    if (R >= longest) continue;  // it would be the same
    const HostParts parts = search.stages(R);
    if (parts.empty()) break;
    longest = longest_reduction(parts, costs);
    all.push_back(shape_of(parts, microbatch));
  }
  return all;
}

// The best of the first pipelines.
struct FirstShape {
  HostShape shape;
  HostOrder order;
};

void take_faster(std::optional<FirstShape>& best, HostShape shape,
                 HostCosts& costs) {
  const double known = best ? best->order.seconds : kInfinity;
  HostOrder order = costs.predicted(shape, known);
  if (order.seconds < known) best = {std::move(shape), std::move(order)};
}

// One stage per group of hosts.
std::optional<FirstShape> first_shape(HostCosts& costs) {
  std::optional<FirstShape> best;
  for (int microbatch : few_microbatches(costs))
    for (HostShape& shape : shapes_at(microbatch, costs))
      take_faster(best, std::move(shape), costs);
  return best;
}

// Stages of about equal compute time, stage s on group s mod w of the w groups.
HostShape looped_shape(const HostCosts& costs, int w, int rounds,
                       int microbatch) {
  HostShape shape;
  shape.microbatch = microbatch;
  shape.hosts.assign(at(w), costs.num_hosts() / w);
  const int stages = std::min(w * rounds, costs.last());
  const double all = costs.compute(0, costs.last());
  for (int s = 0, end = 0; s < stages; ++s) {
    const int last = costs.last() - (stages - 1 - s);  // one cut for each other
    ++end;
    while (end < last && costs.compute(0, end) < all * (s + 1) / stages) ++end;
    shape.stages.push_back({s + 1 == stages ? costs.last() : end, s % w});
  }
  return shape;
}

std::optional<FirstShape> first_looped_shape(HostCosts& costs) {
  std::optional<FirstShape> best;
  for (int microbatch : few_microbatches(costs))
    for (int w = 1; w <= std::min(costs.num_hosts(), costs.last()); ++w)
      for (int rounds : kHostRounds)
        if (costs.num_hosts() % w == 0 && at(w * rounds) <= kMaxStagesInHost)
          take_faster(best, looped_shape(costs, w, rounds, microbatch), costs);
  return best;
}

bool can_search(const Problem& group) {
  return group.cluster->kinds().size() == 1 && !is_asynchronous(group.method);
}

}  // namespace

std::unique_ptr<HostSearch> HostSearch::create(const Problem& group, int copies,
                                               Replication replication) {
  const Cluster& cluster = *group.cluster;
  if (cluster.num_hosts() < 2 || !can_search(group)) return nullptr;
  const std::vector<Islands> islands = islands_of(cluster);
  if (islands.empty()) return nullptr;
  // A replica's share of an eighth of the minibatch, if its stage is on a
  // quarter of the hosts.
  const int share = std::max(1, group.minibatch / 2 / cluster.num_devices());
  auto table = CostTable::create(*group.profile, cluster, share);
  if (!table) return nullptr;
  const Islands& hosts = islands.front();
  HostCosts costs(group, copies,
                  {hosts.count, hosts.max_devices, hosts.outside, hosts.latency,
                   hosts.outside, hosts.latency, false, replication},
                  *std::move(table));
  std::optional<FirstShape> first = first_shape(costs);
  if (!first) return nullptr;
  return std::unique_ptr<HostSearch>(
      new HostSearch(group, std::move(costs), std::move(first->shape),
                     std::move(first->order), kMaxHostStages));
}

std::unique_ptr<HostSearch> HostSearch::create_in_host(const Problem& host,
                                                       int copies,
                                                       const Islands& hosts) {
  const Cluster& cluster = *host.cluster;
  if (cluster.num_hosts() > 1 || cluster.num_devices() < 2 || !can_search(host))
    return nullptr;
  const std::vector<Islands> islands = islands_of(cluster);
  if (islands.empty()) return nullptr;
  // An eighth of the minibatch on each device.
  auto table = CostTable::create(*host.profile, cluster,
                                 std::max(1, host.minibatch / 8));
  if (!table) return nullptr;
  const Islands& devices = islands.front();
  HostCosts costs(host, copies,
                  {devices.count, 1, devices.fastest, devices.latency,
                   hosts.outside, hosts.latency, true},
                  *std::move(table));
  std::optional<FirstShape> first = first_looped_shape(costs);
  if (!first) return nullptr;
  return std::unique_ptr<HostSearch>(
      new HostSearch(host, std::move(costs), std::move(first->shape),
                     std::move(first->order), kMaxStagesInHost));
}

// Threshold accepting: the pipeline may become slower by less and less.
void HostSearch::improve(int tries, double first_loss,
                         const NextShape& next_shape) {
  HostShape shape = shape_;
  HostOrder order = order_;
  double loss = first_loss;
  for (int i = 0; i < tries && !group_.is_over(); ++i) {
    loss -= (first_loss - kLastLoss) / tries;
    std::optional<HostShape> next = next_shape(shape, order.last_group);
    if (!next) continue;
    const double limit = order.seconds + loss * order_.seconds;
    HostOrder found = costs_.predicted(*next, limit);
    if (found.seconds >= limit) continue;
    shape = *std::move(next);
    order = std::move(found);
    if (order.seconds >= order_.seconds) continue;
    shape_ = shape;
    order_ = order;
  }
}

void HostSearch::improve(int tries) {
  HostChanges changes(few_microbatches(costs_), max_stages_);
  improve(tries, kFirstLoss, [&](const HostShape& shape, int last_group) {
    return changes.next(shape, last_group);
  });
}

void HostSearch::improve_all(int tries) {
  HostChanges changes(few_microbatches(costs_), max_stages_);
  const double loss = take_turns() ? kFirstLossInTurns : kFirstLossOfAll;
  improve(tries, loss, [&](const HostShape& shape, int last_group) {
    return changes.next_of_all(shape, last_group);
  });
}

void HostSearch::improve_order(int tries) {
  HostChanges changes(few_microbatches(costs_), max_stages_);
  improve(tries, kFirstLoss, [&](const HostShape& shape, int) {
    return std::optional(changes.next_order(shape));
  });
}

Result<Planned> HostSearch::plan() {
  PIPEWRIGHT_TRY(const Schedule schedule, costs_.schedule(shape_));
  return planned(costs_.pipeline(shape_), schedule, group_, "auto");
}

}  // namespace pipewright
