#include "pipewright/planners/exact/exact_placement.h"

#include <algorithm>
#include <map>
#include <set>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// Nodes of one colour form a group; a node without a colour is alone.
std::vector<int> colours(const PlacementInstance& instance, int& num_colours) {
  std::map<int, int> index_of;
  std::vector<int> colour_of;
  num_colours = 0;
  for (const PlacementNode& node : instance.nodes) {
    const auto [found, added] =
        node.color_class < 0
            ? std::pair{index_of.end(), true}
            : index_of.try_emplace(node.color_class, num_colours);
    colour_of.push_back(added ? num_colours : found->second);
    if (added) ++num_colours;
  }
  return colour_of;
}

// (before, after) between colours.
std::vector<std::pair<int, int>> order_of(const PlacementInstance& instance,
                                          const std::vector<int>& colour_of,
                                          int num_colours) {
  std::vector<bool> has_forward(at(num_colours), false);
  for (std::size_t v = 0; v < colour_of.size(); ++v)
    if (!instance.nodes[v].is_backward) has_forward[at(colour_of[v])] = true;
  std::vector<std::pair<int, int>> order;
  for (const PlacementEdge& edge : instance.edges) {
    const int from = colour_of[at(edge.source)], to = colour_of[at(edge.dest)];
    if (from == to) continue;
    const bool from_backward = instance.nodes[at(edge.source)].is_backward;
    const bool to_backward = instance.nodes[at(edge.dest)].is_backward;
    if (!from_backward && !to_backward)
      order.emplace_back(from, to);
    else if (from_backward && to_backward &&
             (!has_forward[at(from)] || !has_forward[at(to)]))
      order.emplace_back(to, from);
  }
  return order;
}

ChainNode sum_of(const PlacementInstance& instance,
                 const std::vector<int>& group) {
  ChainNode sum{0, 0, 0, 0};
  for (int v : group) {
    const PlacementNode& node = instance.nodes[at(v)];
    sum.accelerator +=
        node.runs_on_accelerator ? node.accelerator_latency : kNever;
    sum.cpu += node.cpu_latency;
    sum.size += node.size;
  }
  return sum;
}

// The output of each node, over the groups it touches. Tensors over the same
// groups are added up.
std::vector<ChainTensor> tensors_of(const PlacementInstance& instance,
                                    const std::vector<int>& group_of) {
  std::vector<std::set<int>> touched(instance.nodes.size());
  for (const PlacementEdge& edge : instance.edges) {
    touched[at(edge.source)].insert(group_of[at(edge.source)]);
    touched[at(edge.source)].insert(group_of[at(edge.dest)]);
  }
  std::map<std::vector<int>, double> costs;
  for (std::size_t v = 0; v < touched.size(); ++v)
    if (touched[v].size() > 1 && instance.nodes[v].cost > 0)
      costs[{touched[v].begin(), touched[v].end()}] += instance.nodes[v].cost;
  std::vector<ChainTensor> tensors;
  for (auto& [nodes, cost] : costs) tensors.push_back({cost, nodes});
  return tensors;
}

}  // namespace

GroupedInstance grouped(const PlacementInstance& instance, Chains chains) {
  int num_colours = 0;
  const std::vector<int> colour_of = colours(instance, num_colours);
  std::vector<std::pair<int, int>> order;
  if (chains == Chains::Yes) order = order_of(instance, colour_of, num_colours);
  const std::vector<int> group_of_colour = cycle_groups(num_colours, order);
  GroupedInstance result;
  std::vector<int> group_of;
  for (std::size_t v = 0; v < colour_of.size(); ++v) {
    group_of.push_back(group_of_colour[at(colour_of[v])]);
    if (result.groups.size() <= at(group_of[v]))
      result.groups.resize(at(group_of[v]) + 1);
    result.groups[at(group_of[v])].push_back(static_cast<int>(v));
  }
  ChainProblem& problem = result.problem;
  problem.num_accelerators = instance.max_accelerators;
  problem.num_cpus = instance.max_cpus;
  problem.limit = instance.max_size;
  for (const auto& group : result.groups)
    problem.nodes.push_back(sum_of(instance, group));
  for (auto [from, to] : order) {
    const int before = group_of_colour[at(from)];
    const int after = group_of_colour[at(to)];
    if (before != after) problem.order.emplace_back(before, after);
  }
  problem.tensors = tensors_of(instance, group_of);
  return result;
}

PlacementSplit split_of(const PlacementInstance& instance,
                        const GroupedInstance& groups,
                        const std::vector<ChainPart>& parts) {
  PlacementSplit split;
  split.max_load = 0;
  for (const ChainPart& part : parts) {
    PlacementPart held;
    held.load = part.load;
    for (int group : part.nodes)
      for (int v : groups.groups[at(group)])
        held.node_ids.push_back(instance.nodes[at(v)].id);
    std::sort(held.node_ids.begin(), held.node_ids.end());
    split.max_load = std::max(split.max_load, part.load);
    (part.on_cpu ? split.cpus : split.accelerators).push_back(std::move(held));
  }
  return split;
}

}  // namespace pipewright
