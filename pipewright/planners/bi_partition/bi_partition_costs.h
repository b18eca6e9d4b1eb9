// Costs of a plan with separate forward and backward cuts: the time of a stage,
// what is sent at a boundary, and what a worker holds. For the search over such
// cuts. Of the schedule it knows only how many microbatches are in flight.
//
// Symbols
//   x, y     forward and backward cut, in units from the first layer
//   unit     a layer; in models of more than kMaxUnits layers, several light
//            neighbouring layers
//   region   the units between x and y. Their forward is on one side of the
//            boundary, their backward on the other. x > y: the later worker
//            owns the backward; x < y: the earlier one does
//   owner    the worker that runs the backward: it holds the weights, updates
//            them, and sends new ones to the worker that runs the forward
//   U        microbatches per optimizer step
//   light    the owner recomputes, so that no saved tensors are sent

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

struct BiPartitionOptions {
  int band = 6;  // largest distance between the cuts of a boundary, in units
  std::function<bool()> is_over;  // ends the search early; empty: never
  double memory_share = 1.0;      // of each device's memory that a plan may use
};

// Both cuts of one boundary.
struct CutPair {
  int x = 0, y = 0;
  auto operator<=>(const CutPair&) const = default;
};

class BiPartitionCosts {
 public:
  static constexpr int kMaxUnits = 600;

  // Fails if the profile lacks times or sizes.
  static Result<BiPartitionCosts> create(const Problem& problem, int microbatch,
                                         const BiPartitionOptions& options);

  int num_units() const { return static_cast<int>(layer_at_.size()) - 1; }
  int num_workers() const { return static_cast<int>(workers_.size()); }
  int band() const { return options_.band; }
  const BiPartitionOptions& options() const { return options_; }
  int microbatches() const { return microbatches_; }
  int layer_at(int unit) const { return layer_at_[at(unit)]; }
  bool is_exact() const { return num_units() == layer_at_.back(); }

  // Seconds of worker k for one microbatch: forward of [x, x2), backward of
  // [y, y2) with its share of the update.
  double forward(int k, int x, int x2) const {
    return workers_[at(k)].forward[at(x2)] - workers_[at(k)].forward[at(x)];
  }
  double backward(int k, int y, int y2) const {
    return workers_[at(k)].backward[at(y2)] - workers_[at(k)].backward[at(y)];
  }
  // The worker cannot compute while it communicates.
  bool is_blocking(int k) const { return workers_[at(k)].blocking; }

  // Between worker k-1 and worker k, per microbatch: how long the link is busy,
  // and how long a worker that cannot overlap it waits.
  double link(int k, CutPair cut, bool light) const;
  double exchange(int k, CutPair cut, bool light) const;
  // Bytes in addition to what a boundary with equal cuts sends.
  double extra_bytes(CutPair cut, bool light) const;

  // Held by a worker with the stage from cuts `front` to cuts `back`.
  Bytes memory(CutPair front, CutPair back, int stages_after,
               bool recompute) const;
  Bytes memory_limit(int k) const { return workers_[at(k)].memory; }

 private:
  struct Worker {
    std::vector<double> forward, backward;  // prefix sums over units
    bool blocking = false;
    Bytes memory;
    // Of the link to the worker before.
    double bandwidth = 0, latency = 0;
    bool half_duplex = false;
  };
  struct Boundary {
    double forward = 0, backward = 0;  // bytes
    double extra = 0;
    Bytes saved;  // kept for the region, on the owner
  };
  struct Storages;

  const Boundary& boundary(CutPair cut, bool light) const {
    return boundaries_[(at(cut.x) * at(2 * options_.band + 1) +
                        at(cut.y - cut.x + options_.band)) *
                           2 +
                       (light ? 1 : 0)];
  }
  int in_flight(int stages_after) const;
  int versions(int stages_after) const;
  void set_units(const std::vector<double>& seconds);
  void set_link(const Cluster& cluster, DeviceId before, DeviceId device,
                Worker& worker) const;
  void set_kept(const Storages& storages);
  void set_boundaries(const Storages& storages);
  Boundary boundary_of(const Storages& storages, CutPair cut, bool light) const;
  Bytes kept(int first, int end) const {
    return end <= first ? Bytes(0) : kept_[at(first)][at(end - first)];
  }
  Bytes parameters(int first, int end) const {
    return end <= first ? Bytes(0)
                        : parameters_[at(end)] - parameters_[at(first)];
  }

  BiPartitionOptions options_;
  Method method_ = Method::Sync;
  int microbatches_ = 1;  // U
  int optimizer_words_ = 1;
  std::vector<int> layer_at_;  // first layer of each unit, and the end
  std::vector<Worker> workers_;
  std::vector<Bytes> parameters_, crossing_;  // at positions of units
  std::vector<std::vector<Bytes>> kept_;      // [first unit][length]
  std::vector<Boundary> boundaries_;
};

}  // namespace pipewright
