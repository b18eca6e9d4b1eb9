// BaPipe's cost model of a stage: its time, its links' time and its memory, for
// one schedule and one order of devices (bapipe.cc names the paper).
//
// Symbols, as in the paper where it has them
//   N   stages, one per device       F, B  forward, backward of one microbatch
//   M   microbatches per minibatch   SR    one boundary tensor over its link
//   K   microbatches a stage holds   w     weights of a stage
//   u   samples per microbatch
//
// Layers are taken as blocks: a block lies between two neighbouring positions
// where a cut is allowed. A stage has blocks first..end-1. Does not know plans
// or the estimator.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

enum class BaPipeSchedule {
  OneAs,  // 1F1B-AS: asynchronous platforms, transfers stream while computing
  FbpAs,  // FBP-AS: forward and backward at once, half the bandwidth
  Sno,    // 1F1B-SNO: synchronous, transfers exposed
  So,     // 1F1B-SO: synchronous, transfers hidden by more microbatches
};
std::string to_text(BaPipeSchedule schedule);       // "1F1B-SNO"
std::string generator_of(BaPipeSchedule schedule);  // "1f1b"
// K of stage s (from 0) of N: min(M, N-s), doubled for FBP-AS and 1F1B-SO.
int in_flight(BaPipeSchedule schedule, int s, int num_stages,
              int num_microbatches);

// Costs at one microbatch size, whatever the schedule.
class BlockCosts {
 public:
  // Fails as CostTable::create does.
  static Result<BlockCosts> create(const Profile& profile,
                                   const Cluster& cluster, int microbatch);

  int num_blocks() const { return static_cast<int>(positions_.size()) - 1; }
  int microbatch() const { return table_->microbatch(); }
  int position(int block) const { return positions_[at(block)]; }
  // In on-chip memory or in DDR, where the profile distinguishes them
  // (tiers.h).
  Seconds forward(int kind, bool on_chip, int first, int end) const {
    return range(forward_[on_chip ? 1 : 0], kind, first, end);
  }
  Seconds backward(int kind, bool on_chip, int first, int end) const {
    return range(backward_[on_chip ? 1 : 0], kind, first, end);
  }
  Bytes weights(int first, int end) const {
    return table_->parameters(position(first), position(end));
  }
  Bytes kept(int first, int end) const {
    return kept_[at(first)][at(end - first)];
  }
  Bytes crossing(int block) const { return table_->crossing(position(block)); }

 private:
  using Sums = std::vector<std::vector<double>>;  // [kind][position]
  static Seconds range(const Sums& sums, int kind, int first, int end) {
    return Seconds(sums[at(kind)][at(end)] - sums[at(kind)][at(first)]);
  }

  std::shared_ptr<const CostTable> table_;
  std::vector<int> positions_;  // where a cut may be; first 0, last the end
  Sums forward_[2], backward_[2];
  std::vector<std::vector<Bytes>> kept_;
};

// Costs of stages on devices in a given order under a schedule.
class StageCosts {
 public:
  StageCosts(const BlockCosts& blocks, const Problem& problem,
             BaPipeSchedule schedule, std::vector<DeviceId> devices);

  int num_stages() const { return static_cast<int>(devices_.size()); }
  int num_microbatches() const { return num_microbatches_; }
  const BlockCosts& blocks() const { return *blocks_; }
  const std::vector<DeviceId>& devices() const { return devices_; }
  BaPipeSchedule schedule() const { return schedule_; }

  int kind(int s) const;  // of its device
  // Whether all that the stage holds fits its device's on-chip memory.
  bool on_chip(int s, int first, int end) const;
  Seconds forward(int s, int first, int end) const;
  Seconds backward(int s, int first, int end) const;
  Seconds compute(int s, int first, int end) const {
    return forward(s, first, end) + backward(s, first, end);
  }
  // SR of the cut after stage s; infinite without a link, 0 after the last.
  Seconds transfer(int s, int end) const {
    return transfer_of(s, blocks_->crossing(end));
  }
  Seconds transfer_of(int s, Bytes bytes) const;
  // The time of a stage with its links. The largest slot is the period.
  Seconds slot(int s, int first, int end) const;
  // Whether the link after stage s is slower than the stages at its ends.
  bool link_limits(int s, int first, int end) const;

  // Weights, gradients, optimizer state, K times what backward keeps, and the
  // tensors at the two cuts.
  Bytes memory(int s, int first, int end) const;
  Bytes capacity(int s) const;
  // Per stage, what memory() misses according to the simulator; it is added.
  void set_missed(std::vector<Bytes> missed) { missed_ = std::move(missed); }

 private:
  DeviceId device(int s) const { return devices_[at(s)]; }

  const BlockCosts* blocks_;
  const Problem* problem_;
  BaPipeSchedule schedule_;
  std::vector<DeviceId> devices_;
  int num_microbatches_;
  std::vector<Bytes> missed_;
};

// Stage s ends before block ends[s].
using StageEnds = std::vector<int>;
inline int first_of(const StageEnds& ends, int s) {
  return s == 0 ? 0 : ends[at(s - 1)];
}

Seconds bottleneck_of(const StageCosts& costs, const StageEnds& ends);
// Step time: sum of F+B over the stages + (M-1) P + the transfers of filling
// and draining, where P is the largest of slots and of round trips over K.
Seconds promised_step(const StageCosts& costs, const StageEnds& ends);

}  // namespace pipewright
