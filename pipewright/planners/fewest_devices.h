// The fewest devices for which a planner finds a plan, where it finds none for
// the given cluster. Found by planning for larger clusters, so that the hint
// of an error message is known to work.

#pragma once

#include <optional>
#include <string>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct FewestDevices {
  std::string cluster;  // "6xV100@1GB/s"
  int devices = 0;
};

// The problem's cluster with a larger first number ("4xV100", "2x8xV100"), for
// which the planner finds a plan, while it finds none for one less. Doubling
// and bisection find it, so a smaller number may be missed if fitting is not
// monotonic. None if
//   - the cluster was not made from such a text,
//   - the problem cannot be estimated on other clusters,
//   - 64 times as many devices are not enough, or
//   - the problem has a budget and the search takes more than two seconds.
std::optional<FewestDevices> fewest_devices(const Problem& problem,
                                            const std::string& planner);

}  // namespace pipewright
