// The error of a planner for which no plan fits: which stage needs how much
// memory, how much with recompute, and how many devices would be enough.
//
//   no plan of balanced fits 16 GB: stage 1 (V100.1) needs 19.2 GB at best,
//   17.0 GB with recompute; hint: 5 devices are enough (--cluster
//   5xV100@1GB/s), fewer are not

#pragma once

#include <optional>
#include <string>

#include "pipewright/planners/planner.h"

namespace pipewright {

// The worker of a plan that exceeds its device's memory by the largest factor.
struct Shortage {
  double ratio = 0;  // of need to limit
  Bytes need, limit;
  int stage = 0;
  std::string device;
  int microbatch = 0;
};
Shortage shortage_of(const Planned& planned, const Problem& problem);

// The hint: the fewest devices for which the planner has a plan
// (fewest_devices.h), or if that is unknown, about how many by the formula of
// devices_needed.h.
std::string more_devices_hint(const Problem& problem,
                              const std::string& planner);

// `plain` and `recomputed` are the smallest shortages among the plans that were
// tried without and with recompute; at least one is given.
Error nothing_fits(const Problem& problem, const std::string& planner,
                   const std::optional<Shortage>& plain,
                   const std::optional<Shortage>& recomputed);

// For a planner that does not try recompute: `nearest` is its plan that comes
// nearest to fitting. It is estimated again with recompute in every stage.
Error nothing_fits(const Problem& problem, const Planned& nearest);

}  // namespace pipewright
