#include "pipewright/planners/exact/downsets.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// Kahn's algorithm: of the ready nodes the one with the smallest priority goes
// first.
std::vector<int> order_by(const Neighbours& graph,
                          const std::vector<int>& priority) {
  std::vector<std::size_t> missing;
  using Ready = std::pair<int, int>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  for (std::size_t v = 0; v < priority.size(); ++v) {
    missing.push_back(graph.before[v].size());
    if (missing[v] == 0) ready.emplace(priority[v], static_cast<int>(v));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    const int v = ready.top().second;
    ready.pop();
    order.push_back(v);
    for (int w : graph.after[at(v)])
      if (--missing[at(w)] == 0) ready.emplace(priority[at(w)], w);
  }
  return order;
}

// Depth first from the sinks: a branch is finished before the next begins.
// Not recursive, because a chain may be long.
std::vector<int> depth_first(const Neighbours& graph, bool last_first) {
  const std::size_t n = graph.before.size();
  std::vector<int> order;
  std::vector<std::size_t> next(n, 0);
  std::vector<bool> seen(n, false);
  std::vector<int> stack;
  for (std::size_t root = 0; root < n; ++root) {
    if (seen[root] || !graph.after[root].empty()) continue;
    seen[root] = true;
    stack.push_back(static_cast<int>(root));
    while (!stack.empty()) {
      const int v = stack.back();
      const auto& before = graph.before[at(v)];
      if (next[at(v)] == before.size()) {
        order.push_back(v);
        stack.pop_back();
        continue;
      }
      const std::size_t i = next[at(v)]++;
      const int u = last_first ? before[before.size() - 1 - i] : before[i];
      if (!seen[at(u)]) {
        seen[at(u)] = true;
        stack.push_back(u);
      }
    }
  }
  return order;
}

}  // namespace

Neighbours neighbours(const ChainProblem& problem) {
  Neighbours graph;
  graph.before.resize(problem.nodes.size());
  graph.after.resize(problem.nodes.size());
  auto edges = problem.order;
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  for (auto [u, v] : edges) {
    graph.after[at(u)].push_back(v);
    graph.before[at(v)].push_back(u);
  }
  return graph;
}

double accelerator_load(const ChainProblem& problem,
                        const std::vector<int>& nodes) {
  std::vector<bool> held(problem.nodes.size(), false);
  double load = 0;
  for (int v : nodes) {
    held[at(v)] = true;
    load += problem.nodes[at(v)].accelerator;
  }
  for (const ChainTensor& tensor : problem.tensors) {
    const auto inside = std::count_if(tensor.nodes.begin(), tensor.nodes.end(),
                                      [&](int v) { return held[at(v)]; });
    if (inside > 0 && at(static_cast<int>(inside)) < tensor.nodes.size())
      load += tensor.cost;
  }
  return load;
}

double cpu_load(const ChainProblem& problem, const std::vector<int>& nodes) {
  double load = 0;
  for (int v : nodes) load += problem.nodes[at(v)].cpu;
  return load;
}

double size_on(const ChainProblem& problem, const std::vector<int>& nodes,
               int before) {
  const double times = std::min(before + 1, problem.max_kept);
  double size = 0;
  for (int v : nodes)
    size += problem.nodes[at(v)].size + times * problem.nodes[at(v)].kept;
  return size;
}

double load_of(const ChainProblem& problem, const ChainPart& part) {
  return part.on_cpu ? cpu_load(problem, part.nodes)
                     : accelerator_load(problem, part.nodes);
}

double largest_load(const std::vector<ChainPart>& parts) {
  double load = 0;
  for (const ChainPart& part : parts) load = std::max(load, part.load);
  return load;
}

std::vector<std::vector<int>> topological_orders(const ChainProblem& problem) {
  const Neighbours graph = neighbours(problem);
  const int n = static_cast<int>(problem.nodes.size());
  std::vector<int> index(at(n));
  std::iota(index.begin(), index.end(), 0);
  std::vector<std::vector<int>> orders{order_by(graph, index)};
  if (orders[0].size() != index.size()) return {};
  orders.push_back(depth_first(graph, false));
  orders.push_back(depth_first(graph, true));
  std::vector<int> depth(at(n), 0);
  for (int v : orders[0])
    for (int w : graph.after[at(v)])
      depth[at(w)] = std::max(depth[at(w)], depth[at(v)] + 1);
  orders.push_back(order_by(graph, depth));
  std::sort(orders.begin() + 1, orders.end());
  orders.erase(std::unique(orders.begin(), orders.end()), orders.end());
  return orders;
}

std::vector<int> cycle_groups(int num_nodes,
                              const std::vector<std::pair<int, int>>& edges) {
  // Kosaraju's algorithm: the order in which nodes are finished, then the
  // components of the reversed graph in the opposite order.
  std::vector<std::vector<int>> after(at(num_nodes)), before(at(num_nodes));
  for (auto [u, v] : edges) {
    after[at(u)].push_back(v);
    before[at(v)].push_back(u);
  }
  std::vector<int> finished, group(at(num_nodes), -1);
  std::vector<std::size_t> next(at(num_nodes), 0);
  std::vector<bool> seen(at(num_nodes), false);
  std::vector<int> stack;
  for (int root = 0; root < num_nodes; ++root) {
    if (seen[at(root)]) continue;
    seen[at(root)] = true;
    stack.push_back(root);
    while (!stack.empty()) {
      const int v = stack.back();
      if (next[at(v)] == after[at(v)].size()) {
        finished.push_back(v);
        stack.pop_back();
      } else if (const int w = after[at(v)][next[at(v)]++]; !seen[at(w)]) {
        seen[at(w)] = true;
        stack.push_back(w);
      }
    }
  }
  int groups = 0;
  for (auto root = finished.rbegin(); root != finished.rend(); ++root) {
    if (group[at(*root)] >= 0) continue;
    group[at(*root)] = groups;
    stack.push_back(*root);
    while (!stack.empty()) {
      const int v = stack.back();
      stack.pop_back();
      for (int u : before[at(v)])
        if (group[at(u)] < 0) {
          group[at(u)] = groups;
          stack.push_back(u);
        }
    }
    ++groups;
  }
  return group;
}

}  // namespace pipewright
