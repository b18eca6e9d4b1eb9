// Balanced partition, exactly: a table over (stages, layers), each entry the
// smallest possible slowest part. Both ways of counting are tried, with and
// without links; the simulator chooses.

#include "pipewright/planners/balanced.h"

#include <algorithm>
#include <limits>

#include "pipewright/planners/choice.h"
#include "pipewright/planners/list.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// n layers, first s stages: the answer and where the last of them begins.
class BalanceTable {
 public:
  BalanceTable(const CostTable& costs, const Cluster& cluster,
               bool communication)
      : costs_(costs), cluster_(cluster), communication_(communication) {}

  Balance solve(int stages) {
    const int layers = costs_.num_layers();
    std::vector<double> before(at(layers) + 1, kInfinity);
    before[0] = 0;
    std::vector<std::vector<int>> begins;
    for (int s = 0; s < stages; ++s) {
      std::vector<double> now(at(layers) + 1, kInfinity);
      std::vector<int>& begin = begins.emplace_back(at(layers) + 1, -1);
      for (int i = s; i < layers; ++i) {
        if (before[at(i)] == kInfinity) continue;
        const double arrival = std::max(before[at(i)], link_load(s, i));
        for (int j = i + 1; j <= layers; ++j) {
          const double load = std::max(arrival, stage_load(s, i, j, stages));
          if (load < now[at(j)]) now[at(j)] = load, begin[at(j)] = i;
        }
      }
      before = std::move(now);
    }
    return traced(begins, before[at(layers)]);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  Balance traced(const std::vector<std::vector<int>>& begins, double best) {
    Balance balance;
    if (best == kInfinity) return balance;
    balance.bottleneck = Seconds(best);
    int end = costs_.num_layers();
    for (std::size_t s = begins.size(); s-- > 0; end = begins[s][at(end)])
      balance.ends.insert(balance.ends.begin(), end);
    return balance;
  }

  // Of the link into stage s, whose first layer is `position`.
  double link_load(int s, int position) const {
    if (s == 0) return 0;
    const Link* link = cluster_.link(DeviceId(s - 1), DeviceId(s));
    if (link == nullptr) return kInfinity;
    if (!communication_) return 0;
    const Seconds way =
        link->latency + costs_.crossing(position) / link->bandwidth;
    return link->duplex == Duplex::Half ? 2 * way.value() : way.value();
  }

  double stage_load(int s, int first, int end, int stages) const {
    const Device& device = cluster_.devices()[at(s)];
    double load = costs_.compute(device.kind, first, end).value();
    if (!communication_ ||
        cluster_.kinds()[at(device.kind)].overlaps_communication)
      return load;
    load += 2 * link_load(s, first);
    return s + 1 < stages ? load + 2 * link_load(s + 1, end) : load;
  }

  const CostTable& costs_;
  const Cluster& cluster_;
  bool communication_;
};

class BalancedPlanner : public Planner {
 public:
  std::string name() const override { return "balanced"; }
  std::string summary() const override {
    return "the smallest largest stage or link, exactly; one stage a device";
  }
  std::string source() const override { return "folklore"; }

  Result<Planned> plan(const Problem& problem) const override {
    Choice choice(problem, name());
    const int stages =
        std::min(problem.cluster->num_devices(), problem.profile->num_layers());
    for (int microbatch : problem.microbatches) {
      if (choice.is_over()) break;
      PIPEWRIGHT_TRY(
          const CostTable costs,
          CostTable::create(*problem.profile, *problem.cluster, microbatch));
      std::vector<int> seen;
      for (bool communication : {true, false}) {
        const Balance balance =
            balanced_stages(costs, *problem.cluster, stages, communication);
        if (balance.ends.empty())
          choice.refuse(bad_configuration("neighbouring devices have no link"));
        else if (balance.ends != seen)
          choice.consider(pipeline_of(balance.ends, microbatch, problem),
                          {balance.bottleneck, Seconds(0)});
        seen = balance.ends;
      }
    }
    return std::move(choice).best();
  }
};

}  // namespace

Balance balanced_stages(const CostTable& costs, const Cluster& cluster,
                        int stages, bool communication) {
  return BalanceTable(costs, cluster, communication).solve(stages);
}

std::unique_ptr<Planner> balanced_planner() {
  return std::make_unique<BalancedPlanner>();
}

}  // namespace pipewright
