#include "pipewright/planners/exact/exact_improve.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/planners/exact/exact_orders.h"

namespace pipewright {
namespace {

class Improvement {
 public:
  Improvement(const ChainProblem& problem, std::vector<ChainPart>& parts)
      : problem_(problem), parts_(parts), graph_(neighbours(problem)) {}

  // Moves a node out of the part with the largest load; false if no move lowers
  // that load.
  bool move_one() {
    const double largest = largest_load(parts_);
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].load < largest) continue;
      const std::vector<int> nodes = parts_[p].nodes;
      for (int v : nodes) {
        if (p + 1 < parts_.size() && is_free(graph_.after[at(v)], p) &&
            try_move(v, p, p + 1, largest))
          return true;
        if (p > 0 && is_free(graph_.before[at(v)], p) &&
            try_move(v, p, p - 1, largest))
          return true;
      }
      return false;
    }
    return false;
  }

  // Keeps the order of the chain and finds its best cuts.
  bool cut_again() {
    std::vector<int> part_of(problem_.nodes.size(), 0), order;
    const std::vector<int> any = topological_orders(problem_).at(0);
    for (std::size_t p = 0; p < parts_.size(); ++p)
      for (int v : parts_[p].nodes) part_of[at(v)] = static_cast<int>(p);
    for (std::size_t p = 0; p < parts_.size(); ++p)
      for (int v : any)
        if (at(part_of[at(v)]) == p) order.push_back(v);
    const double below = largest_load(parts_) * (1 - kLoadRounding);
    std::vector<ChainPart> found = best_along(problem_, order, below);
    if (found.empty() || largest_load(found) >= below) return false;
    parts_ = std::move(found);
    return true;
  }

 private:
  // Whether none of these neighbours is in the part.
  bool is_free(const std::vector<int>& side, std::size_t part) const {
    const auto& nodes = parts_[part].nodes;
    return std::none_of(side.begin(), side.end(), [&](int w) {
      return std::binary_search(nodes.begin(), nodes.end(), w);
    });
  }

  bool fits(std::size_t part, const std::vector<int>& nodes) const {
    int before = 0;
    for (std::size_t p = 0; p < part; ++p) before += !parts_[p].on_cpu;
    return parts_[part].on_cpu ||
           size_on(problem_, nodes, before) <= problem_.limit;
  }

  bool try_move(int node, std::size_t from, std::size_t to, double below) {
    if (parts_[from].nodes.size() == 1) return false;
    ChainPart less = parts_[from], more = parts_[to];
    less.nodes.erase(
        std::lower_bound(less.nodes.begin(), less.nodes.end(), node));
    more.nodes.insert(
        std::lower_bound(more.nodes.begin(), more.nodes.end(), node), node);
    less.load = load_of(problem_, less);
    more.load = load_of(problem_, more);
    if (std::max(less.load, more.load) >= below * (1 - kLoadRounding) ||
        !fits(to, more.nodes))
      return false;
    parts_[from] = std::move(less);
    parts_[to] = std::move(more);
    return true;
  }

  const ChainProblem& problem_;
  std::vector<ChainPart>& parts_;
  const Neighbours graph_;
};

}  // namespace

void improve(const ChainProblem& problem, std::vector<ChainPart>& parts) {
  if (parts.empty()) return;
  Improvement improvement(problem, parts);
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round)
    if (!improvement.move_one() && !improvement.cut_again()) return;
}

}  // namespace pipewright
