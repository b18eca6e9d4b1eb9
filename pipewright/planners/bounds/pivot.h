// One layer of the bounds on replicas and cards (replica_bound.h,
// card_bound.h): when the sum of its gradients starts at the latest. It knows
// of other layers their work, what passes between them, and which of them are
// on other islands.

#pragma once

#include <vector>

#include "pipewright/planners/bounds/first_times.h"
#include "pipewright/planners/bounds/islands.h"
#include "pipewright/planners/bounds/least_times.h"

namespace pipewright {

// Two times that differ by less than this share of them may be equal.
inline constexpr double kRounding = 1e-9;

// What all pivots of a problem need. The arguments must outlive it.
struct PivotCosts {
  PivotCosts(const Problem& problem, const std::vector<KindTimes>& kinds);

  const Problem& problem;
  const KindTimes work;
  const FirstTimes first;             // all zero if the method is asynchronous
  const std::vector<double> outputs;  // bytes per sample
  // Bytes per sample of the largest output that the backward of each layer
  // reads: a kept input, or its own output.
  const std::vector<double> kept;
  double fastest = 0, latency = 0;  // of any link
};

// Seconds of a sum over r devices: (r - 1)/r times those of its bytes over a
// link, and log2 r times those of two messages (at most sum_rounds()).
struct SumTimes {
  double bytes = 0, latency = 0;
  double seconds(double r) const;
};

// What the devices of a layer do of it for all samples, from its first start.
struct OwnWork {
  double seconds, start;

  // The smallest number of devices, from `least` on, for which the work and a
  // sum end by time T, up to rounding, or less. Infinity: none.
  double fewest_devices(const SumTimes& sum, double T, double least) const;
  // The smallest for the work alone to end by time T.
  double fewest_devices(double T) const;
};

// For every layer the width of the widest path between it and the pivot: the
// bytes per sample of the path's narrowest edge; 0 if there is no path.
struct PathWidths {
  std::vector<double> before, after;  // of layers before and after the pivot
  // Of layers before it, to an input that the pivot keeps for its backward.
  std::vector<double> to_kept;
};

// By layer: whether no island has its backward and that of some pivot.
using Apart = std::vector<bool>;

// When the sum of a pivot starts at the latest, and the fewest islands that its
// backward can be on. Negative: there is no such step.
struct PivotSum {
  double latest = -1;
  int fewest = 0;
};

// The layer l of replica_bound.h.
class Pivot {
 public:
  // The first two must outlive it.
  Pivot(const PivotCosts& costs, const Islands& islands, std::size_t layer);

  // In a step of T seconds.
  PivotSum sum(double T, const Apart& apart) const;

  std::size_t layer() const { return layer_; }
  const Islands& islands() const { return islands_; }
  const WorkBeforeSums& work_before() const { return work_before_; }
  // When all devices together have done the work before the sum.
  double earliest() const { return before_; }
  double update() const { return costs_.work[layer_].update; }
  // Seconds of a sum over so many islands, or more, that the card of each of
  // them is busy with it in either direction.
  double on_card(int num_islands) const;
  // In a step of T seconds on so many islands or more: the latest start of the
  // sum if another island has a forward of the layer and is sent its weights;
  // and the fewest devices of these islands, by the start of the sum.
  double latest_to_send(double T, int num_islands) const;
  double fewest_devices(double T, double start, int num_islands) const;

 private:
  OwnWork backwards() const;
  OwnWork all_work() const;
  SumTimes sum_times(int num_islands) const;
  double start_after(const std::vector<OwnWork>& own, double T, int a,
                     int b) const;
  bool has_time(double T, double start, int a, int b, double forwards,
                const Apart& apart) const;
  double latest_start(double T, int a, int b, const Apart& apart) const;
  double start_without_work(double T, int a, int b) const;
  void improve(PivotSum& sum, double T, int a, int b, const Apart& apart) const;

  const PivotCosts& costs_;
  const Islands& islands_;
  const std::size_t layer_;
  const double bytes_;  // of its parameters
  const WorkBeforeSums work_before_;
  const double before_;  // seconds
  // Seconds to send the weights to a device without the layer's backward.
  const double weights_sent_;
  const PathWidths widths_;
};

}  // namespace pipewright
