// What the importers share when they put a profile together: an order for
// graphs, the halves of a backward given as one number, chains, the first
// characters of a file, limits.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

// Upper limits of a single figure in an imported file: sums then stay exact in
// 64 bits however many lines there are.
inline constexpr double kMaxImportedBytes = 1e12;
inline constexpr double kMaxImportedSeconds = 1e9;
inline constexpr double kMaxImportedMs = kMaxImportedSeconds * 1e3;
inline constexpr double kMebibyte = 1024.0 * 1024.0;
inline constexpr double kMaxImportedMegabytes = kMaxImportedBytes / kMebibyte;
inline constexpr int kMaxImportedCount = 1 << 20;     // replicas, samples
inline constexpr int kMaxImportedNodes = 10'000'000;  // nodes, devices, ids

// Nodes 0..n-1, each after all its sources; among those that could stand next,
// the smallest first. Empty when there is a cycle.
std::vector<int> topological_order(int num_nodes,
                                   std::span<const std::pair<int, int>> edges);
// A node on a cycle of a graph for which topological_order found none.
int node_on_cycle(int num_nodes, std::span<const std::pair<int, int>> edges);

// Where a source gives backward as one number: all of it is the weight's where
// nothing upstream wants a gradient, all of it the input's where there are no
// weights, half and half otherwise. The two always add up to `backward`.
LayerTimes times_of(Seconds forward, Seconds backward, bool has_inputs,
                    bool has_parameters);

// Adds a layer and, unless 0, one parameter of its own. What the layer keeps
// must be in it already.
LayerId add_layer(Profile& profile, ProfileLayer layer, Bytes parameters);
// A layer behind the last one (or the first), keeping no storage by name.
LayerId add_to_chain(Profile& profile, std::string name, std::string kind,
                     Bytes parameters);

// Sums over all layers.
struct ProfileTotals {
  int edges = 0;
  Seconds forward;
  Seconds backward;
  Seconds update;
  Bytes parameters;
};
ProfileTotals totals_of(const Profile& profile, const std::string& kind,
                        int microbatch);

// The first characters of a text without white space, digits as they are.
std::string opening(std::string_view text, std::size_t length = 400);
// The line of the first bytes that are not UTF-8; 0 when all are.
int line_of_bad_text(std::string_view text);
bool contains(std::string_view text, std::string_view part);
// "gpus=4/graph.txt" -> {"gpus=4", "graph.txt"}, at most the last `count`.
std::vector<std::string> path_parts(std::string_view path, std::size_t count);
// "vgg16/graph.txt" or "vgg16/graph.txt and 3 more".
std::string names_of(std::span<const std::string> names);
Bytes whole_bytes(double bytes);

}  // namespace pipewright
