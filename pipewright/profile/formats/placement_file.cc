// Reads the files of dnn-partitioning into the types of placement.h.

#include <algorithm>
#include <unordered_map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/placement.h"

namespace pipewright {
namespace {

// true, false, 0 or 1.
bool truth(const JsonCursor& value) {
  if (value.json() && std::holds_alternative<bool>(value.json()->value()))
    return value.boolean();
  return value.integer(0, 1) == 1;
}

double latency(const JsonCursor& value) {
  return value.real(0, kMaxImportedSeconds);
}

double size(const JsonCursor& value) {
  return value.real(0, kMaxImportedBytes);
}

PlacementNode node_of(JsonCursor& cursor) {
  PlacementNode node;
  node.id = static_cast<int>(cursor.at("id").integer(0, kMaxImportedNodes));
  JsonCursor name = cursor.find("name");
  node.name = name.exists() ? name.text() : "node" + std::to_string(node.id);
  node.runs_on_accelerator = truth(cursor.at("supportedOnFpga"));
  node.cpu_latency = latency(cursor.at("cpuLatency"));
  node.accelerator_latency = latency(cursor.at("fpgaLatency"));
  node.is_backward = truth(cursor.at("isBackwardNode"));
  if (JsonCursor color = cursor.find("colorClass"); color.exists())
    node.color_class = static_cast<int>(color.integer(0, kMaxImportedNodes));
  if (JsonCursor layer = cursor.find("layerId"); layer.exists())
    node.layer_id = static_cast<int>(layer.integer(0, kMaxImportedNodes));
  node.size = size(cursor.at("size"));
  cursor.refuse_other_keys();
  return node;
}

class InstanceReader {
 public:
  InstanceReader(const Json& json, std::string file)
      : file_(file), errors_(std::move(file)), root_(json, errors_) {}

  Result<PlacementInstance> read() {
    instance_.max_size = root_.at("maxSizePerFPGA").real(0, 1e18);
    instance_.max_accelerators =
        static_cast<int>(root_.at("maxFPGAs").integer(0, kMaxImportedNodes));
    instance_.max_cpus =
        static_cast<int>(root_.at("maxCPUs").integer(0, kMaxImportedNodes));
    read_nodes();
    if (errors_.empty()) read_edges();
    root_.refuse_other_keys();
    if (!errors_.empty()) return errors_.error();
    return ordered();
  }

 private:
  void read_nodes() {
    for (JsonCursor& cursor : root_.at("nodes").elements()) {
      PlacementNode node = node_of(cursor);
      if (!index_of_.emplace(node.id, instance_.nodes.size()).second)
        cursor.fail("duplicate id " + std::to_string(node.id));
      instance_.nodes.push_back(std::move(node));
    }
    if (instance_.nodes.empty()) root_.fail("the instance has no nodes");
    // By id, so that the topological order does not depend on the order of the
    // nodes in the file.
    std::sort(instance_.nodes.begin(), instance_.nodes.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    for (std::size_t i = 0; i < instance_.nodes.size(); ++i)
      index_of_[instance_.nodes[i].id] = i;
  }

  int end_of(const JsonCursor& id) {
    auto found =
        index_of_.find(static_cast<int>(id.integer(0, kMaxImportedNodes)));
    if (id.exists() && found == index_of_.end()) id.fail("no node has this id");
    return found == index_of_.end() ? 0 : static_cast<int>(found->second);
  }

  void read_edges() {
    std::vector<double> cost(instance_.nodes.size(), -1);
    for (JsonCursor& cursor : root_.at("edges").elements()) {
      PlacementEdge edge;
      edge.source = end_of(cursor.at("sourceId"));
      edge.dest = end_of(cursor.at("destId"));
      const double time = latency(cursor.at("cost"));
      if (JsonCursor bytes = cursor.find("size"); bytes.exists())
        edge.size = size(bytes);
      cursor.refuse_other_keys();
      double& known = cost[edge.source];
      if (known >= 0 && known != time)
        cursor.fail("the cost " + exact_text(time) +
                    " differs from that of another edge of the same source, " +
                    exact_text(known));
      known = time;
      instance_.edges.push_back(edge);
    }
    for (std::size_t i = 0; i < cost.size(); ++i)
      instance_.nodes[i].cost = std::max(0.0, cost[i]);
  }

  Result<PlacementInstance> ordered() {
    std::vector<std::pair<int, int>> pairs;
    for (const PlacementEdge& edge : instance_.edges)
      pairs.emplace_back(edge.source, edge.dest);
    const int num_nodes = static_cast<int>(instance_.nodes.size());
    const std::vector<int> order = topological_order(num_nodes, pairs);
    if (order.empty())
      return malformed(
          "the edges form a cycle through the node " +
              std::to_string(
                  instance_.nodes[node_on_cycle(num_nodes, pairs)].id),
          file_);
    PlacementInstance sorted = instance_;
    std::vector<int> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      place[order[i]] = static_cast<int>(i);
      sorted.nodes[i] = instance_.nodes[order[i]];
    }
    for (PlacementEdge& edge : sorted.edges) {
      edge.source = place[edge.source];
      edge.dest = place[edge.dest];
    }
    return without_repeats(std::move(sorted));
  }

  Result<PlacementInstance> without_repeats(PlacementInstance sorted) {
    auto key = [](const PlacementEdge& e) {
      return std::pair(e.source, e.dest);
    };
    std::sort(sorted.edges.begin(), sorted.edges.end(),
              [&](const auto& a, const auto& b) { return key(a) < key(b); });
    auto twice = std::adjacent_find(
        sorted.edges.begin(), sorted.edges.end(),
        [&](const auto& a, const auto& b) { return key(a) == key(b); });
    if (twice == sorted.edges.end()) return sorted;
    auto id = [&](int i) { return std::to_string(sorted.nodes[i].id); };
    return malformed(
        "duplicate edge from " + id(twice->source) + " to " + id(twice->dest),
        file_);
  }

  std::string file_;
  JsonErrors errors_;
  JsonCursor root_;
  PlacementInstance instance_;
  std::unordered_map<int, std::size_t> index_of_;
};

std::vector<PlacementPart> parts_of(const JsonCursor& list) {
  std::vector<PlacementPart> parts;
  for (JsonCursor& cursor : list.elements()) {
    PlacementPart part;
    part.load = cursor.at("load").real(-1, kMaxImportedSeconds);
    for (const JsonCursor& id : cursor.at("nodes").elements())
      part.node_ids.push_back(
          static_cast<int>(id.integer(0, kMaxImportedNodes)));
    cursor.refuse_other_keys();
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

Result<PlacementInstance> parse_placement(std::string_view text,
                                          const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  if (!json.find("nodes") && !json.find("maxFPGAs"))
    return malformed("not a placement instance: missing key \"nodes\"", file,
                     "docs/place.md shows an instance");
  return InstanceReader(json, file).read();
}

Result<PlacementSplit> parse_split(std::string_view text,
                                   const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  PlacementSplit split;
  split.source = file;
  split.cpus = parts_of(root.at("cpus"));
  split.accelerators = parts_of(root.at("fpgas"));
  split.max_load = root.at("maxLoad").real(-1, kMaxImportedSeconds);
  root.refuse_other_keys();
  if (!errors.empty()) return errors.error();
  return split;
}

}  // namespace pipewright
