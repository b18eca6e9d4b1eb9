// What a planner says where nothing fits: which stage needs how much at best,
// how much with recompute, and how many devices would do.
//
//   no plan of balanced fits 16 GB: stage 1 (V100.1) needs 19.2 GB at best,
//   17.0 GB with recompute; hint: 5 devices would do (--cluster 5xV100@1GB/s),
//   fewer would not

#pragma once

#include <optional>
#include <string>

#include "pipewright/planners/planner.h"

namespace pipewright {

// The worker of a plan that exceeds its device most.
struct Shortage {
  double ratio = 0;  // of need to limit
  Bytes need, limit;
  int stage = 0;
  std::string device;
  int microbatch = 0;
};
Shortage shortage_of(const Planned& planned, const Problem& problem);

// The fewest devices, each with as much memory as the smallest of the cluster,
// on which a pipeline of one stage a device fits, at the smallest microbatch,
// by a formula: weights, gradients and optimizer state, what 1F1B keeps, and
// buffers. 0 if some layer
// alone is too large.
int devices_needed(const Problem& problem, bool recompute);

// What would help that planner: the fewest devices for which it has a plan
// (more_devices.h), or where that is not known, by the formula, about how many.
std::string remedy(const Problem& problem, const std::string& planner);

// The least that was needed without recompute and with it, where that was
// tried.
Error nothing_fits(const Problem& problem, const std::string& planner,
                   const std::optional<Shortage>& plain,
                   const std::optional<Shortage>& recomputed);

// The same for a planner that tries no recompute itself: its nearest plan, with
// every stage recomputed.
Error nothing_fits(const Problem& problem, const Planned& nearest);

}  // namespace pipewright
