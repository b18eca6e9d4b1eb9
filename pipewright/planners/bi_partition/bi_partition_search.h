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
  double extra_bytes = 0;       // moved beyond equal cuts, per microbatch

  int num_stages() const { return static_cast<int>(recompute.size()); }
  bool is_split() const {
    for (const CutPair& cut : cuts)
      if (cut.x != cut.y) return true;
    return false;
  }
};

// Of all plans whose stages have a forward and a backward each, whose split
// units lie on neighbouring workers and within the band, and whose workers are
// within their memory: the smallest largest load or link for every number of
// stages.
class BiPartitionSearch {
 public:
  // Plans at `limit` or above are not looked for; none is below `bound`. Where
  // the pipeline drains every step, the limit is that of a single stage: one of
  // j stages has j - 1 more rounds, which must take no longer all together.
  BiPartitionSearch(const BiPartitionCosts& costs, double limit, double bound,
                    bool drains = false);

  // Seconds per microbatch with that many stages; nothing if none is found.
  std::optional<double> bottleneck(int stages) const;
  // Of the plans with that bottleneck one that moves the fewest extra bytes.
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
  // Whether `behind` workers can do what lies behind the cuts and the others
  // what lies before them, nobody taking longer than the limit.
  bool is_within(CutPair cut, int behind, double limit) const;
  // limits[j]: of the part of a plan that has j stages.
  void fill(std::vector<Table>& tables, int stages, Goal goal,
            const std::vector<double>& limits) const;
  void extend(const Table& behind, Table& table, const State& state,
              int num_behind, Goal goal, double limit) const;
  // What follows from choosing `back` as the stage's end; the smaller value
  // stays.
  void consider(const Table& behind, Table& table, const State& front,
                const State& back, int num_behind, Goal goal,
                double limit) const;
  bool fits(const State& front, const State& back, int num_behind,
            bool recompute) const;
  BiPartition traced(const std::vector<Table>& tables, int stages) const;

  const BiPartitionCosts& costs_;
  double bound_;
  // Sums over the units before, each on the worker that is fastest for it.
  std::vector<double> least_forward_, least_backward_;
  std::vector<Table> tables_;  // [stages]
};

// No pair of cuts on these workers in this order has a smaller bottleneck:
// without communication, memory and the restriction to neighbours.
double communication_free_bound(const BiPartitionCosts& costs);

}  // namespace pipewright
