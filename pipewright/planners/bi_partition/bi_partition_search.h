// The exact search over pairs of forward and backward cuts, and a bound that
// ignores communication and memory.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/planners/bi_partition/bi_partition_costs.h"

namespace pipewright {

// Stage i runs the forward of units cuts[i].x to cuts[i+1].x and the backward
// of cuts[i].y to cuts[i+1].y; one of the two may be empty. The stages are on
// the last devices.
struct BiPartition {
  std::vector<CutPair> cuts;    // one more than stages; {0, 0} first
  std::vector<int> replicas;    // per stage
  std::vector<bool> recompute;  // per stage
  double bottleneck = 0;        // seconds per microbatch
  double extra_bytes = 0;  // sent in addition to equal cuts, per microbatch

  int num_stages() const { return static_cast<int>(recompute.size()); }
  bool is_split() const {
    for (const CutPair& cut : cuts)
      if (cut.x != cut.y) return true;
    return false;
  }
};

// The smallest largest load or link for every number of stages and devices,
// over all plans
//   - whose stages each have a forward, a backward or both,
//   - whose forward and backward cuts are at most the band apart,
//   - whose stages have at most max_replicas replicas, on devices in order, and
//   - whose devices are within their memory.
// What travels further than to the next stage counts at every boundary that it
// passes. A stage recomputes only if all that it owns is its own or its
// neighbours'.
class BiPartitionSearch {
 public:
  // Plans with a bottleneck of `limit` or more are not searched; none is below
  // `bound`. If the pipeline drains every step, the limit is that of a single
  // stage. A plan of j stages has j - 1 more rounds, so its limit is lower.
  BiPartitionSearch(const BiPartitionCosts& costs, double limit, double bound,
                    bool drains = false);

  // Seconds per microbatch; none if no plan is found.
  std::optional<double> bottleneck(int stages, int devices) const;
  // Of the plans with that bottleneck, one that sends the fewest extra bytes.
  std::optional<BiPartition> best(int stages, int devices) const;

 private:
  enum class Goal {
    Bottleneck,
    ExtraBytes
  };
  struct Choice {
    std::int16_t x = -1, y = -1;
    bool light = false, recompute = false;
    std::int16_t replicas = 1;
  };
  struct State {
    CutPair cut;
    bool light = false;
  };
  // Of the last stages of a plan; empty where there is no plan.
  struct Table {
    std::vector<double> value;
    std::vector<Choice> choice;
    std::vector<double> least;  // of all values with this x
  };

  std::size_t index(const State& state) const;
  Table empty_table() const;
  void set_least();
  // Whether the work after the cuts can be done by `devices_after` devices and
  // the work before them by the others, each within the limit.
  bool is_within(CutPair cut, int devices_after, double limit) const;
  using Tables = std::vector<std::vector<Table>>;  // [stages][devices]
  // Where a stage is in the table: how many stages and devices follow it.
  struct Place {
    BiPartitionCosts::Group group;
    int stages_after = 0;
  };
  // limits[j] is for the last j stages of a plan.
  Tables filled(int stages, int devices, Goal goal,
                const std::vector<double>& limits) const;
  Table filled_table(const Tables& tables, int stages, int devices, Goal goal,
                     double limit) const;
  void extend(const Table& next, Table& table, const State& state, Place place,
              Goal goal, double limit) const;
  // Tries `back` as the end of the stage that starts at `front`.
  void consider(const Table& next, Table& table, const State& front,
                const State& back, Place place, Goal goal, double limit) const;
  // Of a stage without recompute: seconds of its devices and of their links.
  struct Pace {
    double load = 0, link = 0;
  };
  Pace pace_of(const State& front, const State& back, Place place) const;
  BiPartition traced(const Tables& tables, int stages, int devices) const;

  const BiPartitionCosts& costs_;
  double bound_;
  // Sums over the units before, each on the device that is fastest for it.
  std::vector<double> least_forward_, least_backward_;
  Tables tables_;
};

// A lower bound on the bottleneck of any pairs of cuts on these devices in this
// order: without communication, memory and the band.
double communication_free_bound(const BiPartitionCosts& costs);

}  // namespace pipewright
