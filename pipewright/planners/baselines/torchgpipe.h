// The block partition of torchgpipe (torchgpipe.cc names the papers).

#pragma once

#include <vector>

namespace pipewright {

// Cuts `costs` into `blocks` blocks whose sums differ by at most the largest
// cost, if that is possible with at least one layer per block. Returns the ends
// of the blocks. There must be at least as many costs as blocks.
std::vector<int> block_partition(const std::vector<double>& costs, int blocks);

}  // namespace pipewright
