// The block partition of torchgpipe.

#pragma once

#include <vector>

namespace pipewright {

// Cuts `costs` into `blocks` runs whose sums differ by at most the largest
// cost, where whole layers of at least one a block allow it; the ends of the
// runs. At least as many costs as blocks.
std::vector<int> block_partition(const std::vector<double>& costs, int blocks);

}  // namespace pipewright
