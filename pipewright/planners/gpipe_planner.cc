// GPipe: Huang et al., "GPipe: Efficient Training of Giant Neural Networks
// using Pipeline Parallelism", NeurIPS 2019. Cells are cut so that the variance
// of the stages' estimated costs is smallest; all forwards, then all backwards;
// activations are computed anew where they do not fit. Ours: the cut is exact
// (the smallest sum of squares), and costs are times, not operation counts.

#include <algorithm>
#include <limits>

#include "pipewright/base/index.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/list.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

// Ends of the runs with the smallest sum of squared times on one kind.
std::vector<int> least_variance(const CostTable& costs, int kind, int stages) {
  const int layers = costs.num_layers();
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> before(at(layers) + 1, infinity);
  before[0] = 0;
  std::vector<std::vector<int>> begins;
  for (int s = 0; s < stages; ++s) {
    std::vector<double> now(at(layers) + 1, infinity);
    auto& begin = begins.emplace_back(at(layers) + 1, -1);
    for (int i = s; i < layers; ++i)
      for (int j = i + 1; j <= layers; ++j) {
        const double time = costs.compute(kind, i, j).value();
        const double sum = before[at(i)] + time * time;
        if (sum < now[at(j)]) now[at(j)] = sum, begin[at(j)] = i;
      }
    before = std::move(now);
  }
  std::vector<int> ends;
  int end = layers;
  for (int s = stages; s-- > 0; end = begins[at(s)][at(end)])
    ends.insert(ends.begin(), end);
  return ends;
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

  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("gpipe synchronises every minibatch",
                               "plan it with --method sync");
    Choice choice(problem, name());
    const int stages =
        std::min(problem.cluster->num_devices(), problem.profile->num_layers());
    for (int microbatch : problem.microbatches) {
      if (choice.is_over()) break;
      PIPEWRIGHT_TRY(
          const CostTable costs,
          CostTable::create(*problem.profile, *problem.cluster, microbatch));
      Pipeline pipeline = pipeline_of(
          least_variance(costs, leading_kind(*problem.cluster), stages),
          microbatch, problem);
      pipeline.schedule = "gpipe";
      choice.consider(pipeline);
    }
    return std::move(choice).best();
  }
};

}  // namespace

std::unique_ptr<Planner> gpipe_planner() {
  return std::make_unique<GPipePlanner>();
}

}  // namespace pipewright
