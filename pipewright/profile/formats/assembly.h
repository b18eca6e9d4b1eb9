// Shared by the importers: the order of a graph, the halves of a backward given
// as one number, chains, the first characters of a file, limits.

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

// Nodes 0..n-1, each after all its sources, ties by number. Empty if there is a
// cycle.
std::vector<int> topological_order(int num_nodes,
                                   std::span<const std::pair<int, int>> edges);
// A node on a cycle of a graph that has one.
int node_on_cycle(int num_nodes, std::span<const std::pair<int, int>> edges);

// For sources that give backward as one number: split as by set_backward().
LayerTimes times_of(Seconds forward, Seconds backward,
                    const ProfileLayer& layer);

// Adds a layer and, unless 0, one parameter of its own. keeps_input must be
// filled in already.
LayerId add_layer(Profile& profile, ProfileLayer layer, Bytes parameters);
// Adds a layer after the last one. It keeps none of the named storages.
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

// The first characters of a text, without white space.
std::string opening(std::string_view text, std::size_t length = 400);
// The line of the first bytes that are not UTF-8; 0 if there are none.
int line_of_bad_text(std::string_view text);
bool contains(std::string_view text, std::string_view part);
// The last `count` parts of a path: {"gpus=4", "graph.txt"}.
std::vector<std::string> path_parts(std::string_view path, std::size_t count);
// "vgg16/graph.txt" or "vgg16/graph.txt and 3 more".
std::string names_of(std::span<const std::string> names);
Bytes whole_bytes(double bytes);
// A group of tensor-parallel devices is a device of its own: "V100-tp4".
std::string group_kind(const std::string& kind, int degree);
// What the devices of a group hold together, at most kMaxImportedBytes.
Bytes group_bytes(double bytes_of_one, int degree);
// Says that a device of this kind is a group, and what is the group's.
std::string group_note(const std::string& kind);

}  // namespace pipewright
