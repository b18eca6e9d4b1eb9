#include "cli/report/reported_plan.h"

#include <algorithm>

#include "cli/plan/problem.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/report/plan_report.h"

namespace pipewright::cli {

Problem problem_of(const LoweredPlan& lowered) {
  Problem problem;
  problem.profile = &lowered.profile;
  problem.cluster = &lowered.cluster;
  problem.minibatch = lowered.plan.minibatch;
  problem.method = lowered.plan.method;
  problem.optimizer_words = lowered.plan.optimizer_words;
  const int minibatch = lowered.plan.minibatch, own = lowered.plan.microbatch;
  problem.microbatches_for = [minibatch, own](const Cluster& cluster) {
    std::vector<int> sizes = default_microbatches(minibatch, cluster);
    if (std::find(sizes.begin(), sizes.end(), own) == sizes.end())
      sizes.push_back(own);
    return sizes;
  };
  problem.microbatches = problem.microbatches_for(lowered.cluster);
  set_estimators(problem);
  PIPEWRIGHT_CHECK(set_replicas(problem, {}), "defaults are valid");
  return problem;
}

Result<Json> reported_plan(const std::string& plan_file,
                           const PlanInputs& inputs) {
  PIPEWRIGHT_TRY(const LoweredPlan lowered, load_lowered(plan_file, inputs));
  PIPEWRIGHT_TRY(Json plan, plan_report(lowered.plan, problem_of(lowered)));
  return report_of(lowered.profile.model + " on " + lowered.cluster.name(),
                   {std::move(plan)});
}

}  // namespace pipewright::cli
