// A cluster for people: hosts that are alike in one line, links as a matrix
// where that can be read and as classes where it cannot.

#pragma once

#include <string>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

std::string cluster_table(const Cluster& cluster, int width = 100);

// The kinds and links that are known by name, with their sources.
std::string presets_table(int width = 100);

}  // namespace pipewright
