// What a plan with separate forward and backward cuts costs: what a stage
// takes, what must move at a boundary, what a worker must hold. For the search
// over such cuts; knows no schedule but how many microbatches are in flight.
//
// Symbols
//   x, y     forward and backward cut, counted in units from the front
//   unit     a layer; in models beyond kMostUnits a run of light layers
//   region   the units between x and y: forward on one side of the boundary,
//            backward on the other. x > y: the later worker owns their
//            backward; x < y: the earlier one does
//   owner    who runs the backward: it has the weights, steps them, and sends
//            new ones to where the forward runs
//   U        microbatches per optimizer step
//   light    the owner recomputes, so that no saved tensors move

#pragma once

#include <functional>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

struct BiPartitionOptions {
  int band = 6;                   // most units between the cuts of a boundary
  bool recompute = true;          // stages may recompute
  std::function<bool()> is_over;  // ends the search with what there is
  int in_flight_factor = 1;       // 2: of schedules that run twice as far ahead
  double memory_share = 1.0;  // of each device's memory that a plan may take
};

// Both cuts of one boundary.
struct CutPair {
  int x = 0, y = 0;
  auto operator<=>(const CutPair&) const = default;
};

class BiPartitionCosts {
 public:
  static constexpr int kMostUnits = 600;

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
  // Communication stops the worker's compute.
  bool is_blocking(int k) const { return workers_[at(k)].blocking; }

  // Between worker k-1 and worker k, per microbatch: how long the link is busy,
  // and how long a worker that cannot overlap it stands still.
  double link(int k, CutPair cut, bool light) const;
  double exchange(int k, CutPair cut, bool light) const;
  // Bytes beyond what a boundary with equal cuts moves.
  double extra_bytes(CutPair cut, bool light) const;

  // Held by a worker from cuts `front` to cuts `back`, `behind` stages
  // following it.
  Bytes memory(CutPair front, CutPair back, int behind, bool recompute) const;
  Bytes memory_limit(int k) const { return workers_[at(k)].memory; }

 private:
  struct Worker {
    std::vector<double> forward, backward;  // prefix sums over units
    bool blocking = false;
    Bytes memory;
    // To the worker before it.
    double bandwidth = 0, latency = 0;
    bool half_duplex = false;
  };
  struct Boundary {
    double forward = 0, backward = 0;  // bytes
    double extra = 0;
    Bytes saved;  // kept by the region, on the owner
  };
  struct Storages;

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  const Boundary& boundary(CutPair cut, bool light) const {
    return boundaries_[(at(cut.x) * at(2 * options_.band + 1) +
                        at(cut.y - cut.x + options_.band)) *
                           2 +
                       (light ? 1 : 0)];
  }
  int in_flight(int behind) const;
  int versions(int behind) const;
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
