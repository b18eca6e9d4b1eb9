#include "pipewright/profile/formats/assembly.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

struct Adjacency {
  std::vector<std::vector<int>> users;
  std::vector<int> waits_for;  // number of sources that are not placed yet
};

Adjacency adjacency_of(int num_nodes,
                       std::span<const std::pair<int, int>> edges) {
  Adjacency graph{std::vector<std::vector<int>>(num_nodes),
                  std::vector<int>(num_nodes, 0)};
  for (const auto& [source, dest] : edges) {
    graph.users[source].push_back(dest);
    ++graph.waits_for[dest];
  }
  return graph;
}

// Places all nodes that can be placed; `graph` then has what the others wait
// for.
std::vector<int> place(Adjacency& graph) {
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < graph.waits_for.size(); ++i)
    if (graph.waits_for[i] == 0) ready.push(static_cast<int>(i));
  std::vector<int> order;
  while (!ready.empty()) {
    const int node = ready.top();
    ready.pop();
    order.push_back(node);
    for (int user : graph.users[node])
      if (--graph.waits_for[user] == 0) ready.push(user);
  }
  return order;
}

}  // namespace

std::vector<int> topological_order(int num_nodes,
                                   std::span<const std::pair<int, int>> edges) {
  Adjacency graph = adjacency_of(num_nodes, edges);
  std::vector<int> order = place(graph);
  if (static_cast<int>(order.size()) < num_nodes) order.clear();
  return order;
}

int node_on_cycle(int num_nodes, std::span<const std::pair<int, int>> edges) {
  Adjacency graph = adjacency_of(num_nodes, edges);
  place(graph);
  // Every node that is left has a source that is left: going back over such
  // sources must end in a cycle.
  std::vector<int> source_of(num_nodes, -1);
  int node = -1;
  for (const auto& [source, dest] : edges) {
    if (graph.waits_for[source] == 0) continue;
    source_of[dest] = source;
    node = dest;
  }
  PIPEWRIGHT_CHECK(node >= 0, "the graph has no cycle");
  for (int step = 0; step < num_nodes; ++step) node = source_of[node];
  return node;
}

LayerTimes times_of(Seconds forward, Seconds backward,
                    const ProfileLayer& layer) {
  LayerTimes times;
  times.forward = forward;
  set_backward(times, backward, layer);
  return times;
}

LayerId add_layer(Profile& profile, ProfileLayer layer, Bytes parameters) {
  if (parameters > Bytes(0)) {
    layer.parameters.push_back(ParameterId(profile.parameters.size()));
    profile.parameters.push_back({layer.name + ".parameters", parameters});
  }
  profile.layers.push_back(std::move(layer));
  return LayerId(profile.layers.size() - 1);
}

LayerId add_to_chain(Profile& profile, std::string name, std::string kind,
                     Bytes parameters) {
  ProfileLayer layer;
  layer.name = std::move(name);
  layer.kind = std::move(kind);
  if (!profile.layers.empty()) {
    layer.inputs.push_back(LayerId(profile.layers.size() - 1));
    layer.keeps_input.push_back(false);
  }
  return add_layer(profile, std::move(layer), parameters);
}

ProfileTotals totals_of(const Profile& profile, const std::string& kind,
                        int microbatch) {
  ProfileTotals totals;
  for (const ProfileLayer& layer : profile.layers)
    totals.edges += static_cast<int>(layer.inputs.size());
  for (const ProfileParameter& parameter : profile.parameters)
    totals.parameters += parameter.bytes;
  auto of_kind = profile.times.find(kind);
  if (of_kind == profile.times.end()) return totals;
  auto at = of_kind->second.find(microbatch);
  if (at == of_kind->second.end()) return totals;
  for (const LayerTimes& times : at->second) {
    totals.forward += times.forward;
    totals.backward += times.backward();
    totals.update += times.update;
  }
  return totals;
}

std::string opening(std::string_view text, std::size_t length) {
  std::string first;
  for (char c : text) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    first += c;
    if (first.size() >= length) break;
  }
  return first;
}

int line_of_bad_text(std::string_view text) {
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '\n') ++line;
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) return line;
    i += length;
  }
  return 0;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

std::vector<std::string> path_parts(std::string_view path, std::size_t count) {
  std::vector<std::string> parts;
  for (std::string_view part : split(path, '/'))
    if (!part.empty()) parts.emplace_back(part);
  if (parts.size() > count)
    parts.erase(parts.begin(),
                parts.end() - static_cast<std::ptrdiff_t>(count));
  return parts;
}

std::string names_of(std::span<const std::string> names) {
  if (names.empty()) return "";
  std::string text = names.front();
  if (names.size() > 1)
    text += " and " + std::to_string(names.size() - 1) + " more";
  return text;
}

Bytes whole_bytes(double bytes) {
  return Bytes(static_cast<std::int64_t>(std::llround(bytes)));
}

std::string group_kind(const std::string& kind, int degree) {
  return degree > 1 ? kind + "-tp" + std::to_string(degree) : kind;
}

Bytes group_bytes(double bytes_of_one, int degree) {
  return whole_bytes(std::min(bytes_of_one * degree, kMaxImportedBytes));
}

std::string group_note(const std::string& kind) {
  return "a device of kind " + kind +
         " is a group of GPUs: weights, what is kept, memory and links are "
         "those of the group";
}

}  // namespace pipewright
