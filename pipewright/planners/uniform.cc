// Equal numbers of layers on every device: what people do by hand.

#include <algorithm>
#include <optional>

#include "pipewright/planners/list.h"
#include "pipewright/planners/pipeline.h"

namespace pipewright {
namespace {

class UniformPlanner : public Planner {
 public:
  std::string name() const override { return "uniform"; }
  std::string summary() const override {
    return "equal layer counts, one stage a device, 1F1B";
  }
  std::string source() const override { return "folklore"; }

  Result<Planned> plan(const Problem& problem) const override {
    const int layers = problem.profile->num_layers();
    const int stages = std::min(problem.cluster->num_devices(), layers);
    std::optional<Planned> best;
    std::optional<Error> refusal;
    for (int microbatch : problem.microbatches) {
      Pipeline pipeline;
      pipeline.microbatch = microbatch;
      if (is_asynchronous(problem.method)) pipeline.schedule = "async-1f1b";
      for (int s = 0; s < stages; ++s)
        pipeline.stages.push_back(
            {layers * (s + 1) / stages, -1, {DeviceId(s)}, false});
      Result<Planned> candidate = planned(pipeline, problem, name());
      if (!candidate) {
        refusal = candidate.error();
        continue;
      }
      if (!candidate->estimate.fits) {
        refusal = bad_configuration("equal layer counts do not fit the memory");
        continue;
      }
      if (!best || candidate->estimate.step < best->estimate.step)
        best = *std::move(candidate);
    }
    if (best) return *std::move(best);
    return refusal ? *refusal
                   : bad_configuration("no microbatch size is given");
  }
};

}  // namespace

std::unique_ptr<Planner> uniform_planner() {
  return std::make_unique<UniformPlanner>();
}

}  // namespace pipewright
