// Data parallelism: the whole model on every device. Each microbatch is split
// over the devices, and gradients are summed by a ring before the step.
// `compare` computes speed-ups relative to this planner.

#include "pipewright/planners/choice.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/stage_list.h"

namespace pipewright {
namespace {

class DataParallelPlanner : public Planner {
 public:
  std::string name() const override { return "data-parallel"; }
  std::string summary() const override {
    return "the whole model on every device; splits each microbatch";
  }
  std::string source() const override { return "folklore"; }
  PlanningEffort effort() const override { return PlanningEffort::FixedShape; }

  Result<Planned> plan(const Problem& problem) const override {
    Choice choice(problem, name());
    const int devices = problem.cluster->num_devices();
    const std::vector<StageShape> stages = {
        {problem.profile->num_layers(), devices}};
    for (int microbatch : problem.microbatches) {
      if (choice.is_over()) break;
      if (microbatch < devices)
        choice.refuse(
            bad_configuration("microbatches of " + std::to_string(microbatch) +
                                  " samples cannot be split over " +
                                  std::to_string(devices) + " devices",
                              "use larger microbatches"));
      else
        choice.consider(
            pipeline_of(stages, microbatch, problem, Replication::Split));
    }
    return std::move(choice).best();
  }
};

}  // namespace

std::unique_ptr<Planner> data_parallel_planner() {
  return std::make_unique<DataParallelPlanner>();
}

}  // namespace pipewright
