// SPP with some of its three parts switched off, for a table that shows what
// each of them is worth (experiments/spp).

#pragma once

#include <memory>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct SppParts {
  // Devices in the order of recursive cuts; off: as the cluster lists them.
  bool device_order = true;
  // Cuts with replicas, by compute, channels and all-reduce; off: balanced
  // compute, one device per stage.
  bool partition = true;
  // Microbatches in the order of rounds and by list scheduling; off: 1F1B.
  bool microbatch_order = true;

  bool all() const { return device_order && partition && microbatch_order; }
};

std::unique_ptr<Planner> spp_planner(SppParts parts);

}  // namespace pipewright
