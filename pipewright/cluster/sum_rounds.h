// How long a sum of gradients over devices waits for messages.
//
// A sum over r devices moves 2 (r - 1) / r of the bytes into and out of each of
// them, as around a ring, and 2 ceil(log2 r) of its messages follow each other,
// as in a tree: what double binary trees take (NCCL since 2.4) and recursive
// halving and doubling (MPI). Around a ring 2 (r - 1) would. Slices between all
// of them, as our ranks add up in the fixed order, need 2.

#pragma once

#include <bit>

namespace pipewright {

// The messages of a sum over `devices` that follow each other.
inline int sum_rounds(int devices) {
  return devices < 2 ? 0
                     : 2 * std::bit_width(static_cast<unsigned>(devices - 1));
}

}  // namespace pipewright
