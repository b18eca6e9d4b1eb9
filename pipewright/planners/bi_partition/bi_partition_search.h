// The exact search over pairs of forward and backward cuts, and a bound that
// ignores communication and memory.

#pragma once

#include <optional>
#include <vector>

#include "pipewright/planners/bi_partition/bi_partition_costs.h"

namespace pipewright {

// Stage i runs the forward of units cuts[i].x to cuts[i+1].x and the backward
// of cuts[i].y to cuts[i+1].y. The stages are on the last workers.
struct BiPartition {
  std::vector<CutPair> cuts;    // one more than stages; {0, 0} first
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

// The smallest largest load or link for every number of stages, over all plans
//   - whose stages each have a forward and a backward,
//   - whose forward and backward cuts are at most the band apart, so that a
//     unit's forward and backward are on the same or neighbouring workers, and
//   - whose workers are within their memory.
class BiPartitionSearch {
 public:
  // Plans with a bottleneck of `limit` or more are not searched; none is below
  // `bound`. If the pipeline drains every step, the limit is that of a single
  // stage. A plan of j stages has j - 1 more rounds, so its limit is lower.
  BiPartitionSearch(const BiPartitionCosts& costs, double limit, double bound,
                    bool drains = false);

  // Seconds per microbatch with that many stages; none if no plan is found.
  std::optional<double> bottleneck(int stages) const;
  // Of the plans with that bottleneck, one that sends the fewest extra bytes.
  std::optional<BiPartition> best(int stages) const;

 private:
  enum class Goal {
    Bottleneck,
    ExtraBytes
  };
  struct Choice {
    std::int16_t x = -1, y = -1;
    bool light = false, recompute = false;
  };
  struct State {
    CutPair cut;
    bool light = false;
  };
  struct Table {
    std::vector<double> value;
    std::vector<Choice> choice;
    std::vector<double> least;  // of all values with this x
  };

  std::size_t index(const State& state) const;
  Table empty_table() const;
  void set_least();
  // Whether the work after the cuts can be done by `workers_after` workers and
  // the work before them by the others, each within the limit.
  bool is_within(CutPair cut, int workers_after, double limit) const;
  // limits[j] is for the last j stages of a plan.
  void fill(std::vector<Table>& tables, int stages, Goal goal,
            const std::vector<double>& limits) const;
  void extend(const Table& next, Table& table, const State& state,
              int stages_after, Goal goal, double limit) const;
  // Tries `back` as the end of the stage that starts at `front`.
  void consider(const Table& next, Table& table, const State& front,
                const State& back, int stages_after, Goal goal,
                double limit) const;
  bool fits(const State& front, const State& back, int stages_after,
            bool recompute) const;
  BiPartition traced(const std::vector<Table>& tables, int stages) const;

  const BiPartitionCosts& costs_;
  double bound_;
  // Sums over the units before, each on the worker that is fastest for it.
  std::vector<double> least_forward_, least_backward_;
  std::vector<Table> tables_;  // [stages]
};

// A lower bound on the bottleneck of any pairs of cuts on these workers in this
// order: without communication, memory and the restriction to neighbours.
double communication_free_bound(const BiPartitionCosts& costs);

}  // namespace pipewright
