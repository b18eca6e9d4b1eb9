// Costs of one problem at one microbatch size for SPP: the time of a range of
// layers on a range of the line of devices, as the tables that spp_partition.h
// searches and as the loads that spp_order.h orders.
//
// More devices than kMaxUnits are grouped, and of more layers than kMaxBlocks
// only the cheapest cuts are tried, so that a thousand devices are planned as
// fast as a few dozen. Devices of different kinds in one range work at the pace
// of the slowest, layer by layer.
//
// The paper's model has no memory; the memory here is ours. It is a lower bound
// (without workspace and buffers), so that it never excludes a plan that would
// fit; the estimator decides.

#pragma once

#include <map>
#include <span>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/base/result.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/spp/spp_links.h"
#include "pipewright/planners/spp/spp_order.h"
#include "pipewright/planners/spp/spp_partition.h"

namespace pipewright {

inline constexpr int kMaxUnits = 64;
inline constexpr int kMaxBlocks = 256;

class SppCosts {
 public:
  // Fails if the profile lacks a kind of device or the sizes.
  static Result<SppCosts> create(const Problem& problem,
                                 const std::vector<DeviceId>& order,
                                 int microbatch);

  int microbatch() const { return microbatch_; }
  int num_microbatches() const { return num_microbatches_; }
  // Its layers are blocks of layers, its devices are groups of devices.
  const PartitionProblem& partition() const { return partition_; }
  // Whether every layer and device is tried on its own.
  bool is_exact() const {
    return units_.size() == order_.size() + 1 &&
           cuts_.size() == at(cuts_.back()) + 1;
  }
  // Only compute counts, and every stage has one device: for plans without
  // SPP's partition.
  PartitionProblem compute_only() const;
  // The same with a limit on memory: weights, their gradients and optimizer
  // state, and what 1F1B keeps of activations.
  PartitionProblem partition_within_memory() const;

  std::vector<StageLoad> loads(const std::vector<PartitionStage>& stages) const;
  std::span<const DeviceId> devices(const PartitionStage& stage) const;
  int end_layer(const PartitionStage& stage) const {
    return cuts_[at(stage.end_layer)];
  }
  // The least that a device of the stage needs if it holds `held` microbatches.
  Bytes memory(const PartitionStage& stage, int held) const;
  Bytes memory_limit(const PartitionStage& stage) const;

 private:
  struct Sums {  // of the layers before a cut
    std::vector<double> forward, backward, update;
  };
  using SumsKey = std::pair<int, std::vector<int>>;  // samples, kinds

  void choose_units();
  Result<void> choose_cuts();
  Result<const CostTable*> table_at(int samples);
  Result<const Sums*> sums_of(std::span<const DeviceId> devices);
  Result<void> add_ranges();
  void add_channels();
  Result<void> add_kept();
  std::span<const DeviceId> devices(int first, int end) const;
  int samples(std::size_t replicas) const {
    const int r = static_cast<int>(replicas);
    return (microbatch_ + r - 1) / r;
  }
  double needed(int first_block, int end_block, int on_samples, int held) const;

  const Problem* problem_ = nullptr;
  std::vector<DeviceId> order_;
  int microbatch_ = 1, num_microbatches_ = 1;
  std::vector<int> units_;  // 0, and the ends of the groups in the order
  std::vector<int> cuts_;   // layers before each block, and all layers
  std::vector<double> parameters_;   // bytes before each cut
  std::map<int, CostTable> tables_;  // by samples
  std::map<SumsKey, Sums> sums_;
  std::vector<const Sums*> sums_of_range_;  // by range_index
  std::vector<LinkCost> rings_;             // by range_index
  std::vector<float> kept_;  // [first block * (blocks + 1) + end block]
  PartitionProblem partition_;
};

}  // namespace pipewright
