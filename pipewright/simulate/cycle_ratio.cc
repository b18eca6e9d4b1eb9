// Newton's iteration on the ratio, as in Lawler's "Combinatorial Optimization"
// (1976) on minimal cost-to-time ratios: with weights less ratio times
// distance, a cycle whose sum is above 0 has a larger ratio; take that ratio
// and try again, until longest paths settle. The answer is the ratio of an
// actual cycle, so it is exact up to the rounding of two sums.

#include "pipewright/simulate/cycle_ratio.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// Positions of nodes such that waits within a repetition point forward: then
// one pass settles all paths that stay in a repetition.
std::vector<std::int32_t> order_within_repetition(
    int num_nodes, const std::vector<Wait>& waits) {
  std::vector<std::vector<std::int32_t>> next(at(num_nodes));
  std::vector<int> before(at(num_nodes), 0);
  for (const Wait& wait : waits) {
    if (wait.distance != 0) continue;
    next[at(wait.from)].push_back(wait.to);
    ++before[at(wait.to)];
  }
  std::vector<std::int32_t> ready, position(at(num_nodes), num_nodes);
  for (std::int32_t n = 0; n < num_nodes; ++n)
    if (before[at(n)] == 0) ready.push_back(n);
  for (std::size_t i = 0; i < ready.size(); ++i) {
    position[at(ready[i])] = static_cast<std::int32_t>(i);
    for (std::int32_t n : next[at(ready[i])])
      if (--before[at(n)] == 0) ready.push_back(n);
  }
  return position;
}

class Search {
 public:
  Search(int num_nodes, std::vector<Wait> waits, double at_least)
      : waits_(std::move(waits)), ratio_(at_least), num_nodes_(num_nodes) {
    const auto position = order_within_repetition(num_nodes, waits_);
    std::stable_sort(waits_.begin(), waits_.end(),
                     [&position](const Wait& a, const Wait& b) {
                       return position[at(a.from)] < position[at(b.from)];
                     });
    double total = 0;
    for (const Wait& wait : waits_) total += std::abs(wait.weight);
    slack_ = 1e-15 * total;
  }

  double run() {
    while (auto better = better_ratio()) ratio_ = *better;
    return ratio_;
  }

 private:
  // Longest paths at the present ratio; the ratio of a cycle that keeps them
  // from settling.
  std::optional<double> better_ratio() {
    length_.assign(at(num_nodes_), 0);
    last_wait_.assign(at(num_nodes_), -1);
    for (int pass = 0; pass <= num_nodes_; ++pass) {
      if (!relax()) return std::nullopt;
      if (auto ratio = ratio_of_a_cycle()) return ratio;
    }
    return std::nullopt;
  }

  bool relax() {
    bool changed = false;
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const Wait& wait = waits_[i];
      const double length =
          length_[at(wait.from)] + wait.weight - ratio_ * wait.distance;
      if (length <= length_[at(wait.to)] + slack_) continue;
      length_[at(wait.to)] = length;
      last_wait_[at(wait.to)] = static_cast<std::int32_t>(i);
      changed = true;
    }
    return changed;
  }

  // Among the waits that made the longest paths; only if above the present.
  std::optional<double> ratio_of_a_cycle() {
    std::vector<std::int32_t> seen(at(num_nodes_), -1);
    std::optional<double> best;
    for (std::int32_t start = 0; start < num_nodes_; ++start) {
      std::int32_t node = start;
      while (seen[at(node)] < 0 && last_wait_[at(node)] >= 0) {
        seen[at(node)] = start;
        node = waits_[at(last_wait_[at(node)])].from;
      }
      if (seen[at(node)] != start || last_wait_[at(node)] < 0) continue;
      const double ratio = ratio_around(node);
      if (ratio > ratio_ && (!best || ratio > *best)) best = ratio;
    }
    return best;
  }

  double ratio_around(std::int32_t start) const {
    double weight = 0;
    std::int64_t distance = 0;
    std::int32_t node = start;
    do {
      const Wait& wait = waits_[at(last_wait_[at(node)])];
      weight += wait.weight;
      distance += wait.distance;
      node = wait.from;
    } while (node != start);
    PIPEWRIGHT_CHECK(distance > 0 || weight <= 0,
                     "actions wait for each other: not a validated program");
    return distance > 0 ? weight / static_cast<double>(distance) : 0;
  }

  std::vector<Wait> waits_;
  double ratio_;
  const int num_nodes_;
  double slack_ = 0;
  std::vector<double> length_;
  std::vector<std::int32_t> last_wait_;  // of the longest path to a node
};

}  // namespace

double largest_cycle_ratio(int num_nodes, std::vector<Wait> waits,
                           double at_least) {
  return Search(num_nodes, std::move(waits), at_least).run();
}

}  // namespace pipewright
