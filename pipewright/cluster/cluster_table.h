// A cluster as a table: one line for equal hosts, one for equal links, and for
// few devices the matrix of bandwidths.

#pragma once

#include <string>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

std::string cluster_table(const Cluster& cluster, int width = 100);

// What stands below each table with the memory of programs, where kinds hold
// more than that; "" where none does:
//
//   memory: of programs, without what devices hold beside them
//   T4: 1 GB of base memory, 5 % fragmentation: programs can hold 14 GB of 16
//   GB
std::string memory_note(const Cluster& cluster);

// What kinds take beyond the layers of a profile, a line per kind that has any:
// "T4: layers take 4 % longer than profiled".
std::string time_overheads_text(const Cluster& cluster);

// The device kinds and links that are known by name, with sources.
std::string presets_table(int width = 100);

}  // namespace pipewright
