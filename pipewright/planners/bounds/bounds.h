// Lower bounds on the step time of any plan of a problem, for any method,
// schedule and planner. A plan's gap is relative to them. The bounds are ours.
// Each also holds for replicas, several stages per device, recompute, and
// different cuts for forward and backward.

#pragma once

#include "pipewright/planners/planner.h"

namespace pipewright {

struct Bounds {
  // All layers of all samples, divided among the devices without any loss.
  Seconds work;
  // Synchronous only: the backward of one layer on r devices takes 1/r of the
  // time, and then r devices sum its gradients.
  Seconds layer;
  // Synchronous only: one microbatch must pass forward and backward along the
  // longest path.
  Seconds path;
  // Synchronous only: large slices of a microbatch take long along a path,
  // small ones cost more per sample (slice_bound.h). At least the work without
  // the updates, of equal devices.
  Seconds slices;
  // Layers whose weights no single device can hold are on different devices.
  // For every sample, what passes between two of them is sent over links.
  Seconds link;
  // All work, and the forwards that must be repeated because all devices
  // together cannot keep the activations of one microbatch.
  Seconds memory;
  // The gradients of a layer are either summed over slow links, or its weights
  // are on few devices that all samples must reach (replica_bound.h). At least
  // the largest of the others.
  Seconds replicas;
  // Synchronous only: layers whose sums do not fit on one network card are on
  // different hosts (card_bound.h). At least the largest of the others.
  Seconds cards;

  Seconds largest() const;
};

// All zero if the profile lacks a kind of the cluster; then no plan can be
// estimated either.
Bounds bounds_of(const Problem& problem);

// The largest of them; 0 if the problem does not want it.
Seconds lower_bound(const Problem& problem);

}  // namespace pipewright
