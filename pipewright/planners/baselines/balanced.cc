// Balanced stages, by an exact dynamic program over stages and layers, once
// with and once without the time of links; the simulator chooses between them.
// Of more than a thousand layers, it is exact among a thousand positions.

#include "pipewright/planners/baselines/balanced.h"

#include <algorithm>

#include "pipewright/planners/best_cuts.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cut_positions.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr int kMaxBalancedPositions = 1000;

// Loads of stages and links, one stage per device.
class BalanceTable {
 public:
  BalanceTable(const CostTable& costs, const Cluster& cluster,
               bool communication)
      : costs_(costs), cluster_(cluster), communication_(communication) {}

  Balance solve(int stages) const {
    const std::vector<int> positions =
        cut_positions(costs_, leading_kind(cluster_),
                      std::max(stages, kMaxBalancedPositions));
    Cuts cuts = best_cuts(
        static_cast<int>(positions.size()) - 1, stages,
        [&](int s, int first, double slowest) {
          return std::max(slowest, link_load(s, positions[at(first)]));
        },
        [&](int s, int first, int end, double slowest) {
          return std::max(slowest, stage_load(s, positions[at(first)],
                                              positions[at(end)], stages));
        });
    if (cuts.ends.empty()) return {};
    for (int& end : cuts.ends) end = positions[at(end)];
    return {cuts.ends, Seconds(cuts.cost), layer_groups(positions)};
  }

 private:
  // The load of the link into stage s, whose first layer is `position`.
  double link_load(int s, int position) const {
    if (s == 0) return 0;
    const Link* link = cluster_.link(DeviceId(s - 1), DeviceId(s));
    if (link == nullptr) return kInfinity;
    if (!communication_) return 0;
    const Seconds transfer =
        link->latency + costs_.crossing(position) / link->bandwidth;
    return link->duplex == Duplex::Half ? 2 * transfer.value()
                                        : transfer.value();
  }

  double stage_load(int s, int first, int end, int stages) const {
    const Device& device = cluster_.devices()[at(s)];
    double load = costs_.compute(device.kind, first, end).value();
    if (!communication_ || cluster_.kinds()[at(device.kind)].overlap == 1)
      return load;
    load += 2 * link_load(s, first);
    return s + 1 < stages ? load + 2 * link_load(s + 1, end) : load;
  }

  const CostTable& costs_;
  const Cluster& cluster_;
  bool communication_;
};

Pipeline pipeline_of(const Balance& balance, const CostTable& costs,
                     const Problem& problem) {
  Pipeline pipeline = pipeline_of(balance.ends, costs.microbatch(), problem);
  pipeline.layer_groups = balance.layer_groups;
  return pipeline;
}

class BalancedPlanner : public Planner {
 public:
  std::string name() const override { return "balanced"; }
  std::string summary() const override {
    return "the fastest slowest stage or link, exactly; one stage per device";
  }
  std::string source() const override { return "folklore"; }
  PlanningEffort effort() const override { return PlanningEffort::FixedShape; }
  bool has_least_memory() const override { return true; }

  Result<Planned> plan(const Problem& problem) const override {
    const int stages =
        std::min(problem.cluster->num_devices(), problem.profile->num_layers());
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          std::vector<int> seen;
          for (bool communication : {true, false}) {
            if (choice.is_over()) break;
            const Balance balance =
                balanced_stages(costs, *problem.cluster, stages, communication);
            if (balance.ends.empty())
              choice.refuse(
                  bad_configuration("there are neighbouring devices without a "
                                    "link"));
            else if (balance.ends != seen)
              choice.consider(pipeline_of(balance, costs, problem),
                              {balance.bottleneck, Seconds(0)});
            seen = balance.ends;
          }
          return {};
        });
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
