#include "pipewright/planners/tuned_replicas.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/text.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/plan/replica_shares.h"

namespace pipewright {
namespace {

// Beyond as many workers only a plan of few actions is tuned, such as data
// parallelism, and only into few buckets.
constexpr int kMaxTunedWorkers = 512;
constexpr std::size_t kMaxWholeActions = 8192, kMaxCutActions = 65536;

std::size_t num_actions(const Plan& plan) {
  std::size_t actions = 0;
  for (const auto& order : plan.schedule.sections().body)
    actions += order.size();
  return actions;
}

bool has_few_actions(const Plan& plan, std::size_t most) {
  return plan.num_workers() <= kMaxTunedWorkers || num_actions(plan) <= most;
}

struct TunedPlan {
  Plan plan;
  Result<Estimate> estimate;
};

// A plan of a model with split layers is not for the problem's profile.
bool can_be_tuned(const Plan& plan, const Problem& problem) {
  return !has_buckets(plan) && plan.model == problem.profile->model &&
         std::any_of(
             plan.stages.begin(), plan.stages.end(),
             [](const Stage& stage) { return stage.workers.size() > 1; });
}

bool has_shares(const Plan& plan) {
  return std::any_of(plan.stages.begin(), plan.stages.end(),
                     [](const Stage& stage) { return !stage.samples.empty(); });
}

// Equal shares and those by speed, each without and with buckets.
std::vector<Plan> tunings(const Plan& plan, const Problem& problem) {
  std::vector<Plan> all = {plan};
  if (problem.shares_by_speed && !has_shares(plan))
    if (auto shares = with_shares(plan, *problem.profile, *problem.cluster);
        shares && has_shares(*shares))
      all.push_back(*std::move(shares));
  if (problem.bucket <= Bytes(0)) return all;
  for (std::size_t i = 0, whole = all.size(); i < whole; ++i)
    if (auto cut = with_buckets(all[i], *problem.profile, problem.bucket);
        cut && has_buckets(*cut) && has_few_actions(*cut, kMaxCutActions))
      all.push_back(*std::move(cut));
  return all;
}

bool is_better(const Estimate& one, const Estimate& other) {
  if (one.fits != other.fits) return one.fits;
  return one.step < other.step;
}

// The plan itself if none of its tunings is faster.
TunedPlan tuned(const Plan& plan, const Problem& problem,
                const Estimator& estimate) {
  TunedPlan best{plan, estimate(plan)};
  if (!best.estimate) return best;
  for (Plan& other : tunings(plan, problem)) {
    if (other.stages == plan.stages) continue;
    Result<Estimate> result = estimate(other);
    if (result && is_better(*result, *best.estimate))
      best = {std::move(other), std::move(result)};
  }
  return best;
}

// The arguments' profile and cluster must outlive the result.
Estimator tuning_estimator(const Problem& problem, const Estimator& estimate) {
  Problem known;
  known.profile = problem.profile;
  known.cluster = problem.cluster;
  known.bucket = problem.bucket;
  known.shares_by_speed = problem.shares_by_speed;
  return [known, estimate](const Plan& plan) {
    if (plan.num_workers() > kMaxSearchedWorkers || !can_be_tuned(plan, known))
      return estimate(plan);
    return tuned(plan, known, estimate).estimate;
  };
}

std::string shares_text(const Plan& plan, const Cluster& cluster) {
  for (const Stage& stage : plan.stages) {
    if (stage.samples.empty()) continue;
    std::vector<std::string> shares;
    for (std::size_t j = 0; j < stage.workers.size(); ++j)
      shares.push_back(
          std::to_string(stage.samples[j]) + " on " +
          cluster.devices()[plan.devices[stage.workers[j].index()].index()]
              .name);
    return "of " + counted(plan.microbatch, "sample") + " " +
           join(shares, ", ");
  }
  return "";
}

std::string why_tuned(const Plan& plan, const Problem& problem,
                      const Estimate& before) {
  std::vector<std::string> reasons;
  if (has_shares(plan))
    reasons.push_back("unequal devices have unequal shares: " +
                      shares_text(plan, *problem.cluster));
  if (has_buckets(plan))
    reasons.push_back("gradients are summed while backward goes on, in " +
                      std::to_string(num_buckets(plan)) + " buckets");
  return join(reasons, "; ") + "; otherwise the step takes " +
         to_text(before.step);
}

// The time of a search may be over: what is estimated here is not limited.
Estimator unlimited_estimator(const Problem& problem) {
  if (!problem.estimator_for) return problem.estimate;
  return problem.estimator_for(*problem.profile, *problem.cluster,
                               problem.memory_limit);
}

// After the time limit a search's own estimates have to do, if the tunings that
// it knows are as fast as it says. Otherwise the result has no estimate.
TunedPlan tuned_late(const Planned& planned, const Problem& problem) {
  TunedPlan none{planned.plan, bad_configuration("not estimated")};
  if (!problem.is_over() || planned.plan.num_workers() > kMaxSearchedWorkers)
    return none;
  TunedPlan known = tuned(planned.plan, problem, problem.estimate);
  if (!known.estimate || is_better(planned.estimate, *known.estimate))
    return none;
  return known;
}

void tune(Planned& planned, const Problem& problem) {
  if (!has_few_actions(planned.plan, kMaxWholeActions) ||
      !can_be_tuned(planned.plan, problem))
    return;
  const Estimator estimate = unlimited_estimator(problem);
  TunedPlan best = tuned_late(planned, problem);
  if (!best.estimate) best = tuned(planned.plan, problem, estimate);
  if (!best.estimate) return;
  if (best.plan.stages != planned.plan.stages) {
    if (const Result<Estimate> before = estimate(planned.plan))
      planned.why += (planned.why.empty() ? "" : "\n") +
                     why_tuned(best.plan, problem, *before);
  }
  planned.plan = std::move(best.plan);
  planned.estimate = *std::move(best.estimate);
}

}  // namespace

Problem with_tuned_replicas(const Problem& problem) {
  Problem result = problem;
  result.estimate = tuning_estimator(problem, problem.estimate);
  if (problem.estimator_for)
    result.estimator_for = [problem](const Profile& profile,
                                     const Cluster& cluster, Bytes limit) {
      Problem other = problem;
      other.profile = &profile;
      other.cluster = &cluster;
      return tuning_estimator(other,
                              problem.estimator_for(profile, cluster, limit));
    };
  return result;
}

Result<Planned> plan_with_tuned_replicas(
    const Problem& problem,
    const std::function<Result<Planned>(const Problem&)>& plan) {
  if (problem.bucket <= Bytes(0) && !problem.shares_by_speed)
    return plan(problem);
  PIPEWRIGHT_TRY(Planned planned, plan(with_tuned_replicas(problem)));
  tune(planned, problem);
  return planned;
}

Result<Planned> default_plan(const Planner& planner, Problem problem) {
  problem.bucket = kDefaultBucket;
  problem.shares_by_speed = true;
  return plan_with_tuned_replicas(
      problem, [&](const Problem& tuned) { return planner.plan(tuned); });
}

std::vector<Planned> untuned(const std::vector<Planned>& plans) {
  std::vector<Planned> result = plans;
  for (Planned& planned : result) {
    if (auto whole = without_buckets(planned.plan)) planned.plan = *whole;
    for (Stage& stage : planned.plan.stages) stage.samples.clear();
  }
  return result;
}

}  // namespace pipewright
