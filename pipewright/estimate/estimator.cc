#include "pipewright/estimate/estimator.h"

#include <algorithm>
#include <utility>

#include "pipewright/estimate/copies_estimator.h"
#include "pipewright/estimate/simulated_estimate.h"
#include "pipewright/plan/lowering/lower.h"

namespace pipewright {
namespace {

// A ring of r workers sends 2 (r - 1) / r of the bytes over each of r links.
Bytes reduction_traffic(const Program& program) {
  Bytes sum;
  for (const Reduction& reduction : program.reductions) {
    const auto workers = static_cast<std::int64_t>(reduction.workers.size());
    sum += reduction.bytes * (2 * std::max<std::int64_t>(0, workers - 1));
  }
  return sum;
}

}  // namespace

Estimator simulating_estimator(const Profile& profile, const Cluster& cluster,
                               Bytes memory_limit,
                               std::function<void(Costs&)> change) {
  Problem limits;
  limits.profile = &profile;
  limits.cluster = &cluster;
  limits.memory_limit = memory_limit;
  return [limits,
          change = std::move(change)](const Plan& plan) -> Result<Estimate> {
    PIPEWRIGHT_TRY(const Program program, lower(plan, *limits.profile));
    PIPEWRIGHT_TRY(const ProgramFacts facts, validate(program));
    PIPEWRIGHT_TRY(Costs costs,
                   costs_of(program, *limits.profile, *limits.cluster));
    if (change) change(costs);
    Estimate estimate = simulated_estimate(program, facts, costs, limits);
    estimate.traffic += reduction_traffic(program);
    return estimate;
  };
}

Estimator simulating_estimator(const Problem& problem) {
  return simulating_estimator(*problem.profile, *problem.cluster,
                              problem.memory_limit);
}

void set_estimators(Problem& problem) {
  problem.estimate = simulating_estimator(problem);
  problem.estimate_copies = copies_estimator(problem);
  problem.estimator_for = [](const Profile& profile, const Cluster& cluster,
                             Bytes memory_limit) {
    return simulating_estimator(profile, cluster, memory_limit);
  };
}

}  // namespace pipewright
