#include "cli/estimator.h"

#include "pipewright/plan/lower.h"
#include "pipewright/plan/validate.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::cli {

Estimator simulating_estimator(const Profile& profile, const Cluster& cluster) {
  return [&](const Plan& plan) -> Result<Estimate> {
    PIPEWRIGHT_TRY(const Program program, lower(plan, profile));
    if (auto facts = validate(program); !facts) return facts.error();
    PIPEWRIGHT_TRY(const Costs costs, costs_of(program, profile, cluster));
    SimulateOptions options;
    options.keep_spans = false;
    const Timeline timeline = simulate(program, costs, options);
    Estimate estimate;
    estimate.step = timeline.step_seconds;
    estimate.bubble = timeline.bubble;
    for (const WorkerSummary& worker : timeline.workers) {
      estimate.memory.push_back(worker.peak.total());
      estimate.fits =
          estimate.fits &&
          worker.peak.total() <= cluster.kind_of(worker.device).memory;
    }
    for (const LinkSummary& link : timeline.links)
      estimate.traffic += link.bytes / std::int64_t{timeline.minibatches};
    return estimate;
  };
}

}  // namespace pipewright::cli
