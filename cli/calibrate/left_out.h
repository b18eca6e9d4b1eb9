// Leaves runs out, to see whether a correction that is fitted to the others is
// worth making.

#pragma once

#include <cstddef>
#include <vector>

namespace pipewright::cli {

using Places = std::vector<std::size_t>;  // of runs

// Of those that are left out in turns: as many as runs, at most 8.
std::size_t num_groups(const Places& places);

struct Split {
  Places group, others;
};

// Every run is in one group.
Split split(const Places& places, std::size_t group);

// The one rule: a correction is made only if it lowers the left-out error, a
// sum of squares, to half. With noise alone a correction that has no cause
// often lowers it a little.
bool is_clearly_lower(double error, double before);

}  // namespace pipewright::cli
