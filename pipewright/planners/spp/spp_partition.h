// SPP's second step (PRM): cuts layers into stages and assigns each stage a
// range of a line of devices, which are its replicas, so that the largest load
// is as small as possible. Works on plain numbers; costs come from spp_costs.h.
//
// Luo et al., "Efficient Pipeline Planning for Expedited Distributed DNN
// Training", INFOCOM 2022. The load of a stage is M times its compute plus what
// it does once (all-reduce, update); the load of a channel is M times both
// transfers.
//
// Two departures in the recurrence. It runs from the last stage to the first,
// so that it knows how many microbatches 1F1B holds at a stage (the number of
// stages from it to the end) and can keep a memory limit. And the best next
// range is found once per cut, before the stage that ends at the cut; the cuts
// of all first layers are then mostly found in one pass over both, so that a
// table of n cuts, D devices and k stages takes O(k n D^3) instead of O(n^2
// D^4):
//
//   G(a,b; m)    = min over c     of max(W(b,c; m, k-1), channel(a,b,c; m))
//   W(a,b; l, k) = min over m > l of max(G(a,b; m), stage(a,b; l..m))
//
// where W(a,b; l, k) is the smallest largest load of the layers from l on in k
// stages, the first on devices a..b-1, the others on devices from b to the end.

#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "pipewright/base/index.h"

namespace pipewright {

inline constexpr double kNoPartition = std::numeric_limits<double>::infinity();

struct PartitionProblem {
  int num_layers = 0;
  int num_devices = 0;
  struct Range {  // devices first..end-1 as the replicas of one stage
    std::vector<double> load;  // of the layers before l, l = 0..num_layers;
                               // empty: they cannot be replicas
    double fixed = 0;          // of any stage on it
  };
  struct Channel {        // from one range to the next
    double per_byte = 0;  // infinite: there is no link
    double fixed = 0;
  };
  std::vector<double> crossing;   // bytes before layer l, l = 0..num_layers
  std::vector<Range> ranges;      // by range_index
  std::vector<Channel> channels;  // by channel_index
  // For each layer l, the last end of a stage that starts at l and fits the
  // memory, if `stages` stages are left including this one. Empty: no limit.
  std::function<std::vector<int>(int stages, int first, int end)> farthest;

  void resize(int layers, int devices);
  std::size_t range_index(int first, int end) const {
    return at(first * (num_devices + 1) + end);
  }
  std::size_t channel_index(int first, int end, int next_end) const {
    return range_index(first, end) * at(num_devices + 1) + at(next_end);
  }
};

struct PartitionStage {
  int first_device = 0, end_device = 0;
  int first_layer = 0, end_layer = 0;
  bool operator==(const PartitionStage&) const = default;
};

class Partition {
 public:
  explicit Partition(const PartitionProblem& problem);

  int max_stages() const { return static_cast<int>(tables_.size()); }
  // The smallest largest load of all layers in `stages` stages, the first of
  // which has devices first..end-1; kNoPartition if there is none.
  double load(int stages, int first, int end) const;
  // The stages with this load.
  std::vector<PartitionStage> stages(int stages, int first, int end) const;

 private:
  struct Table {                          // of one number of stages
    std::vector<std::int32_t> row;        // by range_index; -1: none
    std::vector<double> whole;            // load of all layers, by row
    std::vector<std::uint16_t> cut;       // [row * num_layers + layer]
    std::vector<std::uint16_t> next_end;  // [row * num_layers + cut]
  };
  using Loads = std::vector<double>;  // [row * (num_layers + 1) + layer]

  Table& add_table();
  void last_stage(Loads& loads);
  void stage_before(const Loads& next_loads, Loads& loads);
  bool best_next(const Table& next, const Loads& next_loads, int first, int end,
                 std::vector<double>& best, std::uint16_t* next_end) const;
  void best_cuts(const PartitionProblem::Range& range,
                 const std::vector<int>& farthest,
                 const std::vector<double>& best, std::vector<double>& row,
                 std::vector<std::uint16_t>& cut) const;
  void add_row(Table& table, Loads& loads, int first, int end,
               const std::vector<double>& row) const;

  const PartitionProblem& problem_;
  std::vector<Table> tables_;
};

}  // namespace pipewright
