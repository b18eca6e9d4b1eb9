// What no plan of a problem can beat, whichever method, schedule or planner:
// what a plan's gap is measured against. The bounds are ours; each holds for
// replicas, several stages a device, recompute and different cuts for forward
// and backward, too.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

struct Bounds {
  // All layers of all samples, shared out among the devices without any loss.
  Seconds work;
  // Synchronous only, as the next two: the backward of one layer on r devices
  // takes 1/r of the time, and then r devices sum its gradients.
  Seconds layer;
  // One microbatch has to pass forward and backward along the longest path.
  Seconds path;
  // Layers whose weights no device holds together are apart: what passes
  // between some two of them travels, for every sample, over all links at once.
  Seconds link;
  // All work, and the forwards that must be done again because the devices
  // together cannot keep what one microbatch leaves behind.
  Seconds memory;
  // The weights of a layer are either summed over slow links, or on few devices
  // that all samples have to reach (replica_bound.h). The largest of the others
  // at least.
  Seconds replicas;

  Seconds largest() const;
};

// Zero throughout if the profile lacks a kind of the cluster: nothing is known
// then, and no plan can be scored either.
Bounds bounds_of(const Problem& problem);

// The largest of them.
Seconds lower_bound(const Problem& problem);

}  // namespace pipewright
