// Equal numbers of layers on every device: what people do by hand.

#include <algorithm>

#include "pipewright/planners/choice.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

class UniformPlanner : public Planner {
 public:
  std::string name() const override { return "uniform"; }
  std::string summary() const override {
    return "equal numbers of layers, one stage per device, 1F1B";
  }
  std::string source() const override { return "folklore"; }
  PlanningEffort effort() const override { return PlanningEffort::FixedShape; }

  Result<Planned> plan(const Problem& problem) const override {
    const int layers = problem.profile->num_layers();
    const int stages = std::min(problem.cluster->num_devices(), layers);
    Choice choice(problem, name());
    std::vector<int> ends;
    for (int s = 0; s < stages; ++s) ends.push_back(layers * (s + 1) / stages);
    for (int microbatch : problem.microbatches) {
      if (choice.is_over()) break;
      choice.consider(pipeline_of(ends, microbatch, problem));
    }
    return std::move(choice).best();
  }
};

}  // namespace

std::unique_ptr<Planner> uniform_planner() {
  return std::make_unique<UniformPlanner>();
}

}  // namespace pipewright
