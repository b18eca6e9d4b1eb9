// GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks
// using Pipeline Parallelism", NeurIPS 2019. The model is cut so that the
// variance of the stages' estimated costs is smallest; all forwards, then all
// backwards; activations are recomputed where they do not fit. Departures: the
// cuts are exact (smallest sum of squares; of more than a thousand layers,
// among a thousand positions), and costs are times, not operation counts.

#include <algorithm>

#include "pipewright/planners/best_cuts.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/cut_positions.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

constexpr int kMaxPositions = 1000;

// The smallest sum of squared times of the stages on one kind.
Pipeline least_variance(const CostTable& costs, int kind, int stages,
                        const Problem& problem) {
  const std::vector<int> positions =
      cut_positions(costs, kind, std::max(stages, kMaxPositions));
  std::vector<int> ends =
      best_cuts(
          static_cast<int>(positions.size()) - 1, stages,
          [](int, int, double sum) { return sum; },
          [&](int, int first, int end, double sum) {
            const double time =
                costs.compute(kind, positions[at(first)], positions[at(end)])
                    .value();
            return sum + time * time;
          })
          .ends;
  for (int& end : ends) end = positions[at(end)];
  Pipeline pipeline = pipeline_of(ends, costs.microbatch(), problem);
  pipeline.layer_groups = layer_groups(positions);
  return pipeline;
}

class GPipePlanner : public Planner {
 public:
  std::string name() const override { return "gpipe"; }
  std::string summary() const override {
    return "least variance of stage times, all forwards before all backwards";
  }
  std::string source() const override {
    return "GPipe: Efficient Training of Giant Neural Networks using Pipeline "
           "Parallelism, NeurIPS 2019";
  }
  PlanningEffort effort() const override { return PlanningEffort::FixedShape; }

  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("gpipe plans synchronous training only",
                               "use --method sync");
    const int stages =
        std::min(problem.cluster->num_devices(), problem.profile->num_layers());
    const int kind = leading_kind(*problem.cluster);
    return best_over_sizes(
        problem, name(),
        [&](const CostTable& costs, Choice& choice) -> Result<void> {
          Pipeline pipeline = least_variance(costs, kind, stages, problem);
          pipeline.schedule = "gpipe";
          choice.consider(pipeline);
          return {};
        });
  }
};

}  // namespace

std::unique_ptr<Planner> gpipe_planner() {
  return std::make_unique<GPipePlanner>();
}

}  // namespace pipewright
