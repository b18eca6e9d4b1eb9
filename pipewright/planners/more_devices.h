// How many devices would do where none of a planner's plans fits: found by
// planning for more of them, so the answer holds.

#pragma once

#include <optional>
#include <string>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct Enough {
  std::string cluster;  // "6xV100@1GB/s"
  int devices = 0;
};

// The problem's cluster with a larger first number ("4xV100", "2x8xV100"), for
// which the planner has a plan, and none for one less. Found by doubling and
// halving, so a smaller one that would do between two that do not may be
// missed. None: the cluster is not made of such a text, the problem has no
// estimators for others, 64 times as many would not do, or, where the problem
// has a budget, two seconds more did not find it.
std::optional<Enough> enough_devices(const Problem& problem,
                                     const std::string& planner);

}  // namespace pipewright
