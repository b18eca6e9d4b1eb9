// The smallest costs that layers can have, on one kind of device at any
// microbatch size. For lower bounds.

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/infinity.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

struct LeastTimes {
  double forward = kInfinity;   // per sample
  double backward = kInfinity;  // per sample
  double input = kInfinity;     // of it, what the layers before wait for
  double update = kInfinity;    // per step
};
using KindTimes = std::vector<LeastTimes>;  // by layer

int largest_microbatch(const Problem& problem);

// `kind` is the index of the kind in the cluster.
KindTimes least_times(const Problem& problem, int kind);

// Calls visit(layer, times, size) for all sizes from `min_size` to `max_size`
// at which the time per sample can be smallest.
void visit_least_times(
    const Problem& problem, int kind, int min_size, int max_size,
    const std::function<void(std::size_t, const LayerTimes&, int)>& visit);

// The least of each layer's times, over all kinds of devices.
KindTimes least_work(const std::vector<KindTimes>& kinds);

// All that precedes the end of the backwards of some layers: their own
// backwards, the input gradients of the layers that depend on one of them, and
// the forwards of these and of all that they depend on. By layer.
struct WorkBeforeSums {
  std::vector<bool> forward, input, weights;  // of the backward: two halves

  double seconds(const KindTimes& work) const;  // per sample
};
WorkBeforeSums before_sums(const std::vector<std::size_t>& layers,
                           const Profile& profile);

// Seconds per sample of all that.
double work_before_sums(const std::vector<std::size_t>& layers,
                        const Profile& profile, const KindTimes& work);

// Bytes of each layer's output, and of its gradient, per sample: the smallest
// at any size, minus what rounding of slices may take.
std::vector<double> least_output_bytes(const Problem& problem);

}  // namespace pipewright
