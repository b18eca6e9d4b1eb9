#include "pipewright/estimate/estimator.h"

#include <algorithm>

#include "pipewright/estimate/copies_estimator.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

// A ring of r sends 2 (r - 1) / r of the bytes over each of its r links.
Bytes reduction_traffic(const Program& program) {
  Bytes sum;
  for (const Reduction& reduction : program.reductions) {
    const auto workers = static_cast<std::int64_t>(reduction.workers.size());
    sum += reduction.bytes * (2 * std::max<std::int64_t>(0, workers - 1));
  }
  return sum;
}

}  // namespace

double largest_delay(const ProgramFacts& facts) {
  double largest = 0;
  for (const StageDelay& delay : facts.staleness)
    largest = std::max(largest, delay.forward);
  return largest;
}

Estimate estimate_of(const Timeline& timeline, const Problem& limits) {
  Estimate estimate;
  estimate.step = timeline.step_seconds;
  estimate.bubble = timeline.bubble;
  for (const WorkerSummary& worker : timeline.workers) {
    const Bytes peak = worker.peak.total();
    estimate.memory.push_back(peak);
    if (peak > limits.memory_of(worker.device)) estimate.fits = false;
  }
  for (const LinkSummary& link : timeline.links)
    estimate.traffic += link.bytes / std::int64_t{timeline.minibatches};
  return estimate;
}

Estimator simulating_estimator(const Profile& profile, const Cluster& cluster,
                               Bytes memory_limit) {
  Problem limits;
  limits.profile = &profile;
  limits.cluster = &cluster;
  limits.memory_limit = memory_limit;
  return [limits](const Plan& plan) -> Result<Estimate> {
    PIPEWRIGHT_TRY(const Program program, lower(plan, *limits.profile));
    PIPEWRIGHT_TRY(const ProgramFacts facts, validate(program));
    PIPEWRIGHT_TRY(const Costs costs,
                   costs_of(program, *limits.profile, *limits.cluster));
    SimulateOptions options;
    options.keep_spans = false;
    Estimate estimate = estimate_of(simulate(program, costs, options), limits);
    estimate.traffic += reduction_traffic(program);
    estimate.staleness = largest_delay(facts);
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
