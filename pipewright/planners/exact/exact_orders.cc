#include "pipewright/planners/exact/exact_orders.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// The loads of a range of the order that grows at its end.
class GrowingRange {
 public:
  GrowingRange(const ChainProblem& problem,
               const std::vector<std::vector<int>>& tensors_of)
      : problem_(problem),
        tensors_of_(tensors_of),
        inside_(problem.tensors.size(), 0) {}

  void clear() {
    for (int t : touched_) inside_[at(t)] = 0;
    touched_.clear();
    work = cut = cpu = size = kept = 0;
  }
  void add(int node) {
    const ChainNode& costs = problem_.nodes[at(node)];
    work += costs.accelerator;
    cpu += costs.cpu;
    size += costs.size;
    kept += costs.kept;
    for (int t : tensors_of_[at(node)]) {
      const ChainTensor& tensor = problem_.tensors[at(t)];
      if (inside_[at(t)]++ == 0) {
        touched_.push_back(t);
        cut += tensor.cost;
      }
      if (at(inside_[at(t)]) == tensor.nodes.size()) cut -= tensor.cost;
    }
  }

  double work = 0, cut = 0, cpu = 0, size = 0, kept = 0;

 private:
  const ChainProblem& problem_;
  const std::vector<std::vector<int>>& tensors_of_;
  std::vector<int> inside_, touched_;
};

// The smallest largest load up to each position, by accelerators and CPUs used.
class OrderTable {
 public:
  OrderTable(const ChainProblem& problem, const std::vector<int>& order)
      : problem_(problem),
        order_(order),
        accelerators_(std::min(problem.num_accelerators, num_nodes())),
        cpus_(std::min(problem.num_cpus, num_nodes())),
        cells_(order.size() * row() + row()) {
    cells_[0].load = 0;
  }

  void extend(int from, int to, const GrowingRange& range, double below) {
    const double load = range.work + range.cut;
    for (int k = 0; k <= accelerators_; ++k)
      for (int c = 0; c <= cpus_; ++c) {
        const double so_far = cell(from, k, c).load;
        if (so_far >= below) continue;
        const int times = std::min(k + 1, problem_.max_kept);
        if (k < accelerators_ &&
            range.size + times * range.kept <= problem_.limit)
          offer(cell(to, k + 1, c), std::max(so_far, load), from, false);
        if (c < cpus_)
          offer(cell(to, k, c + 1), std::max(so_far, range.cpu), from, true);
      }
  }

  std::vector<ChainPart> best_below(double below) {
    int k = -1, c = -1;
    for (int i = 0; i <= accelerators_; ++i)
      for (int j = 0; j <= cpus_; ++j)
        if (cell(num_nodes(), i, j).load < below) {
          below = cell(num_nodes(), i, j).load;
          k = i, c = j;
        }
    std::vector<ChainPart> parts;
    for (int end = num_nodes(); k >= 0 && end > 0;) {
      const Cell& to = cell(end, k, c);
      ChainPart part;
      part.on_cpu = to.on_cpu;
      part.nodes.assign(order_.begin() + to.from, order_.begin() + end);
      std::sort(part.nodes.begin(), part.nodes.end());
      part.load = load_of(problem_, part);
      (to.on_cpu ? c : k) -= 1;
      end = to.from;
      parts.push_back(std::move(part));
    }
    std::reverse(parts.begin(), parts.end());
    return parts;
  }

 private:
  struct Cell {
    double load = kNever;
    int from = -1;
    bool on_cpu = false;
  };

  int num_nodes() const { return static_cast<int>(order_.size()); }
  std::size_t row() const { return at(accelerators_ + 1) * at(cpus_ + 1); }
  Cell& cell(int position, int k, int c) {
    return cells_[at(position) * row() + at(k) * at(cpus_ + 1) + at(c)];
  }
  static void offer(Cell& cell, double load, int from, bool on_cpu) {
    if (load < cell.load) cell = {load, from, on_cpu};
  }

  const ChainProblem& problem_;
  const std::vector<int>& order_;
  const int accelerators_, cpus_;
  std::vector<Cell> cells_;
};

}  // namespace

std::vector<ChainPart> best_along(const ChainProblem& problem,
                                  const std::vector<int>& order, double below) {
  std::vector<std::vector<int>> tensors_of(problem.nodes.size());
  for (std::size_t t = 0; t < problem.tensors.size(); ++t)
    for (int v : problem.tensors[t].nodes)
      tensors_of[at(v)].push_back(static_cast<int>(t));
  GrowingRange range(problem, tensors_of);
  OrderTable table(problem, order);
  const int n = static_cast<int>(order.size());
  for (int from = 0; from < n; ++from) {
    range.clear();
    for (int to = from + 1; to <= n; ++to) {
      range.add(order[at(to - 1)]);
      if ((range.work >= below || range.size + range.kept > problem.limit) &&
          (problem.num_cpus == 0 || range.cpu >= below))
        break;
      table.extend(from, to, range, below);
    }
  }
  return table.best_below(below);
}

std::vector<ChainPart> best_of_orders(const ChainProblem& problem) {
  std::vector<ChainPart> best;
  double below = kNever;
  for (const std::vector<int>& order : topological_orders(problem)) {
    std::vector<ChainPart> parts = best_along(problem, order, below);
    if (parts.empty() || largest_load(parts) >= below) continue;
    below = largest_load(parts);
    best = std::move(parts);
  }
  return best;
}

}  // namespace pipewright
