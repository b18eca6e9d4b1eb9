// A cluster as a table: one line for equal hosts, one for equal links, and for
// few devices the matrix of bandwidths.

#pragma once

#include <string>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

std::string cluster_table(const Cluster& cluster, int width = 100);

// What kinds hold and take beyond the layers of a profile, a line per kind that
// has any: "T4: 1 GB of base memory, 5 % fragmentation: programs can hold 14 GB
// of 16 GB".
std::string overheads_text(const Cluster& cluster);

// The device kinds and links that are known by name, with sources.
std::string presets_table(int width = 100);

}  // namespace pipewright
