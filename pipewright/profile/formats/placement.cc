#include "pipewright/profile/formats/placement.h"

#include <algorithm>
#include <unordered_map>

namespace pipewright {
namespace {

// The device (accelerators first, then CPUs) of each node.
Result<std::vector<int>> part_of_nodes(const PlacementInstance& instance,
                                       const PlacementSplit& split) {
  std::unordered_map<int, std::size_t> index_of;
  for (std::size_t i = 0; i < instance.nodes.size(); ++i)
    index_of[instance.nodes[i].id] = i;
  std::vector<int> part_of(instance.nodes.size(), -1);
  int part = 0;
  for (const auto* parts : {&split.accelerators, &split.cpus})
    for (const PlacementPart& held : *parts) {
      for (int id : held.node_ids) {
        auto found = index_of.find(id);
        if (found == index_of.end())
          return malformed(
              "the node " + std::to_string(id) + " is not in the instance",
              split.source);
        if (part_of[found->second] >= 0)
          return malformed(
              "the node " + std::to_string(id) + " is on two devices",
              split.source);
        part_of[found->second] = part;
      }
      ++part;
    }
  for (std::size_t i = 0; i < part_of.size(); ++i)
    if (part_of[i] < 0)
      return malformed("the node " + std::to_string(instance.nodes[i].id) +
                           " is not on any device",
                       split.source);
  return part_of;
}

}  // namespace

Result<std::vector<double>> loads(const PlacementInstance& instance,
                                  const PlacementSplit& split) {
  PIPEWRIGHT_TRY(std::vector<int> part_of, part_of_nodes(instance, split));
  const int num_accelerators = static_cast<int>(split.accelerators.size());
  std::vector<double> load(split.accelerators.size() + split.cpus.size(), 0);
  // (device, node): the device pays for moving the node's output, once.
  std::vector<std::pair<int, int>> moves;
  for (const PlacementEdge& edge : instance.edges) {
    const int from = part_of[edge.source];
    const int to = part_of[edge.dest];
    if (from == to) continue;
    moves.emplace_back(from, edge.source);
    moves.emplace_back(to, edge.source);
  }
  std::sort(moves.begin(), moves.end());
  moves.erase(std::unique(moves.begin(), moves.end()), moves.end());
  for (std::size_t i = 0; i < part_of.size(); ++i) {
    const PlacementNode& node = instance.nodes[i];
    load[part_of[i]] += part_of[i] < num_accelerators ? node.accelerator_latency
                                                      : node.cpu_latency;
  }
  for (const auto& [part, node] : moves)
    if (part < num_accelerators) load[part] += instance.nodes[node].cost;
  return load;
}

}  // namespace pipewright
