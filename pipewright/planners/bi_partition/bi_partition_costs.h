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
//   group    the devices first..first + r - 1, which share a stage as its r
//            replicas: each has 1/r of the compute and of the tensors that are
//            sent and kept, but all of the weights
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
  int max_replicas = 1;  // of a stage
  bool may_recompute = true;
  std::function<bool()> is_over;  // ends the search early; empty: never
  // Of each device's memory that a plan may use; empty: all of it.
  std::vector<double> memory_shares;
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
  int num_devices() const { return num_devices_; }
  int max_replicas() const { return options_.max_replicas; }
  bool may_recompute() const { return options_.may_recompute; }
  int band() const { return options_.band; }
  const BiPartitionOptions& options() const { return options_; }
  int microbatches() const { return microbatches_; }
  int layer_at(int unit) const { return layer_at_[at(unit)]; }
  bool is_exact() const { return num_units() == layer_at_.back(); }

  // A stage on the devices first..first + replicas - 1.
  struct Group {
    int first = 0, replicas = 1;
  };
  // The slowest link of a group's devices to a neighbour, or among them.
  struct GroupLink {
    double bandwidth = 0, latency = 0;  // bandwidth 0: no link
    bool half_duplex = false;
  };
  // Seconds of each device of a group for one microbatch: forward of [x, x2),
  // backward of [y, y2) with its share of the update.
  double forward(Group group, int x, int x2) const {
    const Worker& worker = of(group);
    return worker.forward[at(x2)] - worker.forward[at(x)];
  }
  double backward(Group group, int y, int y2) const {
    const Worker& worker = of(group);
    return worker.backward[at(y2)] - worker.backward[at(y)];
  }
  // The reduction of the gradients of [y, y2), per microbatch.
  double reduction(Group group, int y, int y2) const;
  // A device of the group cannot compute while it communicates.
  bool is_blocking(Group group) const { return of(group).blocking; }

  // Per microbatch, at the boundary before a group or after it: how long each
  // device's link is busy, and how long a device that cannot overlap it waits.
  // The boundary takes the longer of its two groups' times.
  enum class Side {
    Before,
    After
  };
  double link(Group group, Side side, CutPair cut, bool light) const;
  double exchange(Group group, Side side, CutPair cut, bool light) const;
  // Bytes in addition to what a boundary with equal cuts sends.
  double extra_bytes(CutPair cut, bool light) const;

  // Held by a device with the stage from cuts `front` to cuts `back`.
  Bytes memory(CutPair front, CutPair back, int replicas, int stages_after,
               bool recompute) const;
  Bytes memory_limit(Group group) const { return of(group).memory; }

 private:
  // What the devices of one group have in common.
  struct Worker {
    std::vector<double> forward, backward;  // prefix sums over units
    bool blocking = false;
    Bytes memory;
    GroupLink before, after, inside;
  };
  struct Boundary {
    double forward = 0, backward = 0;  // bytes of tensors
    double forward_weights = 0, backward_weights = 0;
    double extra = 0;
  };
  struct Storages;

  const Boundary& boundary(CutPair cut, bool light) const {
    return boundaries_[(at(cut.x) * at(2 * options_.band + 1) +
                        at(cut.y - cut.x + options_.band)) *
                           2 +
                       (light ? 1 : 0)];
  }
  const Worker& of(Group group) const {
    return workers_[at(group.first * options_.max_replicas + group.replicas -
                       1)];
  }
  const GroupLink& link_at(Group group, Side side) const {
    return side == Side::Before ? of(group).before : of(group).after;
  }
  int in_flight(int stages_after) const;
  int versions(int stages_after) const;
  void set_units(const std::vector<double>& seconds);
  void set_workers(const Problem& problem,
                   const std::vector<std::vector<double>>& forward,
                   const std::vector<std::vector<double>>& backward);
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
  int num_devices_ = 0;
  std::vector<Worker> workers_;               // [first device][replicas - 1]
  std::vector<Bytes> parameters_, crossing_;  // at positions of units
  std::vector<std::vector<Bytes>> kept_;      // [first unit][length]
  std::vector<Boundary> boundaries_;
};

}  // namespace pipewright
