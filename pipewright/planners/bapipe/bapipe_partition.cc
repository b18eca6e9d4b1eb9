#include "pipewright/planners/bapipe/bapipe_partition.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

constexpr std::size_t kMaxOrders = 100;

double cost_of(const StageCosts& costs, const PartitionRules& rules, int s,
               int first, int end) {
  if (rules.memory && costs.memory(s, first, end) > costs.capacity(s))
    return kInfinity;
  const Seconds cost =
      rules.links ? costs.slot(s, first, end) : costs.compute(s, first, end);
  return cost.value();
}

// Whether the rules allow stage s to end there.
bool may_end(const StageCosts& costs, const PartitionRules& rules, int s,
             int end) {
  const int n = costs.num_stages(), b = costs.blocks().num_blocks();
  if (s == n - 1) return end == b;
  return end > s && end <= b - (n - 1 - s) &&
         costs.blocks().crossing(end) <= rules.largest_crossing;
}

// D of the header, by stage and end: infinite where there is no partition.
std::vector<std::vector<double>> smallest_largest(const StageCosts& costs,
                                                  const PartitionRules& rules) {
  const int n = costs.num_stages(), b = costs.blocks().num_blocks();
  std::vector<std::vector<double>> largest(
      at(n), std::vector<double>(at(b) + 1, kInfinity));
  for (int end = 1; end <= b; ++end)
    if (may_end(costs, rules, 0, end))
      largest[0][at(end)] = cost_of(costs, rules, 0, 0, end);
  for (int s = 1; s < n; ++s)
    for (int end = s + 1; end <= b; ++end) {
      if (!may_end(costs, rules, s, end)) continue;
      double& best = largest[at(s)][at(end)];
      for (int first = end - 1; first >= s; --first) {
        const double before = largest[at(s - 1)][at(first)];
        // Longer stages only take longer.
        if (costs.compute(s, first, end).value() >= best) break;
        if (before < best)
          best = std::min(
              best, std::max(before, cost_of(costs, rules, s, first, end)));
      }
    }
  return largest;
}

// The ends with the fewest bytes over the cuts, with no stage above `limit`.
StageEnds fewest_bytes(const StageCosts& costs, const PartitionRules& rules,
                       double limit) {
  const int n = costs.num_stages(), b = costs.blocks().num_blocks();
  std::vector<std::vector<double>> bytes(
      at(n), std::vector<double>(at(b) + 1, kInfinity));
  std::vector<std::vector<int>> from(at(n), std::vector<int>(at(b) + 1, 0));
  for (int s = 0; s < n; ++s)
    for (int end = s + 1; end <= b; ++end) {
      if (!may_end(costs, rules, s, end)) continue;
      const auto own =
          static_cast<double>(costs.blocks().crossing(end).value());
      for (int first = s == 0 ? 0 : end - 1; first >= s; --first) {
        if (costs.compute(s, first, end).value() > limit) break;
        const double before = s == 0 ? 0 : bytes[at(s - 1)][at(first)];
        if (before + own < bytes[at(s)][at(end)] &&
            cost_of(costs, rules, s, first, end) <= limit) {
          bytes[at(s)][at(end)] = before + own;
          from[at(s)][at(end)] = first;
        }
      }
    }
  StageEnds ends(at(n), b);
  for (int s = n - 1; s > 0; --s)
    ends[at(s - 1)] = from[at(s)][at(ends[at(s)])];
  return ends;
}

Bytes excess(const StageCosts& costs, const StageEnds& ends, int s) {
  const Bytes memory = costs.memory(s, first_of(ends, s), ends[at(s)]);
  return std::max(Bytes(0), memory - costs.capacity(s));
}

// The stage with the largest excess, -1 if none has any.
int worst_stage(const StageCosts& costs, const StageEnds& ends) {
  int worst = -1;
  for (int s = 0; s < costs.num_stages(); ++s)
    if (excess(costs, ends, s) >
        (worst < 0 ? Bytes(0) : excess(costs, ends, worst)))
      worst = s;
  return worst;
}

// Moves the first block of stage s to the stage before (step -1), or its last
// block to the stage after (+1). None if the stage has only one block, or the
// other stage is full.
std::optional<StageEnds> moved(const StageCosts& costs, StageEnds ends, int s,
                               int step) {
  const int other = s + step;
  if (other < 0 || other >= costs.num_stages()) return std::nullopt;
  if (ends[at(s)] - first_of(ends, s) < 2) return std::nullopt;
  if (costs.memory(other, first_of(ends, other), ends[at(other)]) >=
      costs.capacity(other))
    return std::nullopt;
  if (step < 0)
    ++ends[at(s - 1)];
  else
    --ends[at(s)];
  return ends;
}

// Every order of the kinds; of more than kMaxOrders only those in which devices
// of one kind stay together.
std::vector<std::vector<int>> kind_orders(std::vector<int> kinds,
                                          int num_stages) {
  std::set<std::vector<int>> seen;
  std::sort(kinds.begin(), kinds.end());
  std::vector<int> distinct = kinds;
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<int> order = kinds;
  do {
    seen.emplace(order.begin(), order.begin() + num_stages);
    // With the rest reversed this is the last order with the same beginning.
    std::reverse(order.begin() + num_stages, order.end());
  } while (seen.size() <= kMaxOrders &&
           std::next_permutation(order.begin(), order.end()));
  if (seen.size() > kMaxOrders) {
    seen.clear();
    do {
      std::vector<int> whole;
      for (int kind : distinct)
        std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(whole),
                     [&](int other) { return other == kind; });
      whole.resize(at(num_stages));
      seen.insert(whole);
    } while (seen.size() < kMaxOrders &&
             std::next_permutation(distinct.begin(), distinct.end()));
  }
  return {seen.begin(), seen.end()};
}

}  // namespace

std::optional<StageEnds> balanced_ends(const StageCosts& costs,
                                       const PartitionRules& rules) {
  const int n = costs.num_stages(), b = costs.blocks().num_blocks();
  if (n < 1 || b < n) return std::nullopt;
  const double limit = smallest_largest(costs, rules)[at(n - 1)][at(b)];
  if (limit == kInfinity) return std::nullopt;
  return fewest_bytes(costs, rules, limit);
}

Seconds largest_cost(const StageCosts& costs, const PartitionRules& rules,
                     const StageEnds& ends) {
  double largest = 0;
  for (int s = 0; s < costs.num_stages(); ++s)
    largest = std::max(
        largest, may_end(costs, rules, s, ends[at(s)])
                     ? cost_of(costs, rules, s, first_of(ends, s), ends[at(s)])
                     : kInfinity);
  return Seconds(largest);
}

bool some_link_limits(const StageCosts& costs, const StageEnds& ends) {
  for (int s = 0; s + 1 < costs.num_stages(); ++s)
    if (costs.link_limits(s, first_of(ends, s), ends[at(s)])) return true;
  return false;
}

Bytes largest_crossing(const StageCosts& costs, const StageEnds& ends) {
  Bytes largest;
  for (int s = 0; s + 1 < costs.num_stages(); ++s)
    largest = std::max(largest, costs.blocks().crossing(ends[at(s)]));
  return largest;
}

Bytes memory_excess(const StageCosts& costs, const StageEnds& ends) {
  Bytes sum;
  for (int s = 0; s < costs.num_stages(); ++s) sum += excess(costs, ends, s);
  return sum;
}

StageEnds repaired_for_memory(const StageCosts& costs, StageEnds ends) {
  Bytes before = memory_excess(costs, ends);
  while (before > Bytes(0)) {
    const int worst = worst_stage(costs, ends);
    std::optional<StageEnds> best;
    Seconds best_time;
    for (int step : {-1, 1}) {
      const auto option = moved(costs, ends, worst, step);
      if (!option || memory_excess(costs, *option) >= before) continue;
      const Seconds time = largest_cost(costs, {}, *option);
      if (best && time >= best_time) continue;
      best = option;
      best_time = time;
    }
    if (!best) break;
    ends = *best;
    before = memory_excess(costs, ends);
  }
  return ends;
}

std::vector<std::vector<DeviceId>> device_orders(const Cluster& cluster,
                                                 int num_stages) {
  std::vector<int> kinds;
  for (const Device& device : cluster.devices()) kinds.push_back(device.kind);
  std::vector<std::vector<DeviceId>> orders(1);
  for (int s = 0; s < num_stages; ++s) orders[0].push_back(DeviceId(s));
  for (const std::vector<int>& kind_order : kind_orders(kinds, num_stages)) {
    // The next unused device of the kind, in the cluster's order.
    std::vector<DeviceId> order;
    std::vector<int> next(cluster.kinds().size(), 0);
    for (int kind : kind_order) {
      int& d = next[at(kind)];
      while (kinds[at(d)] != kind) ++d;
      order.push_back(DeviceId(d++));
    }
    if (order != orders[0]) orders.push_back(std::move(order));
  }
  return orders;
}

}  // namespace pipewright
