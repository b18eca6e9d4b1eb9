#include "cli/plan/replanning.h"

#include <algorithm>

#include "cli/load_profile.h"
#include "cli/plan/planning.h"
#include "cli/simulate/lowered_plan.h"
#include "pipewright/base/interruption.h"
#include "pipewright/plan/rank_devices.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/tuned_replicas.h"

namespace pipewright::cli {
namespace {

bool has_replicas(const Plan& plan) {
  return std::any_of(
      plan.stages.begin(), plan.stages.end(),
      [](const Stage& stage) { return stage.workers.size() > 1; });
}

// Under such plans weights have the bits of one worker.
bool is_unreplicated(const Plan& plan) {
  return plan.method == Method::Sync && !has_replicas(plan);
}

class Replanning {
 public:
  // The arguments must outlive this object.
  Replanning(const Plan& before, const Cluster& cluster,
             const ReplanningOptions& options)
      : before_(before),
        cluster_(cluster),
        end_(now_seconds() + options.budget) {
    asked_.profile = options.profile;
    if (options.profile.empty()) asked_.model = estimated_model(before);
    asked_.minibatch = before.minibatch;
    asked_.budget = options.budget;
  }

  // What is best for fewer devices often has another microbatch size. It stays
  // as it is where there are no replicas, whose bits depend on their number.
  Result<Planned> run() {
    if (has_replicas(before_)) return best_plan_of_sizes();
    asked_.budget /= 2;  // there may be two searches
    asked_.microbatches = {before_.microbatch};
    Result<Planned> same = best_plan_of_sizes();
    if (same) return same;
    asked_.microbatches = smaller_microbatches();
    if (asked_.microbatches.empty()) return same;
    Result<Planned> other = best_plan_of_sizes();
    return other ? other : same;
  }

 private:
  // What does not fit may fit with fewer samples.
  std::vector<int> smaller_microbatches() const {
    constexpr std::size_t kMaxSmallerSizes = 8;
    std::vector<int> sizes;
    for (int size : divisors(before_.minibatch))
      if (size < before_.microbatch) sizes.push_back(size);
    if (sizes.size() > kMaxSmallerSizes)
      sizes.erase(sizes.begin(), sizes.end() - kMaxSmallerSizes);
    return sizes;
  }

  Result<Planned> best_plan_of_sizes() {
    PIPEWRIGHT_TRY(LoadedProblem loaded, load_problem(asked_, cluster_));
    loaded.problem.method = before_.method;
    loaded.problem.optimizer_words = before_.optimizer_words;
    stop_in_time(loaded.problem);
    Result<Planned> any = fastest(loaded);
    if (!is_unreplicated(before_) || (any && is_unreplicated(any->plan)))
      return any;
    // As many stages as devices: none has replicas.
    loaded.problem.stages =
        std::min(cluster_.num_devices(), loaded.profile->num_layers());
    Result<Planned> single = fastest(loaded);
    return single && is_unreplicated(single->plan) ? single : any;
  }

  // An estimate that begins in time may take as long again.
  void stop_in_time(Problem& problem) const {
    problem.is_over_ = [end = end_] { return now_seconds() > end; };
    const auto is_too_late = [end = end_ + asked_.budget] {
      return now_seconds() > end;
    };
    const auto in_time = [is_too_late](const auto& estimate) {
      return interruptible(is_too_late, estimate, []() -> Result<Estimate> {
        return bad_configuration("the budget ended before a plan was found",
                                 "give more with --budget");
      });
    };
    problem.estimate = [in_time,
                        estimate = problem.estimate](const Plan& plan) {
      return in_time([&] { return estimate(plan); });
    };
    if (problem.estimate_copies)
      problem.estimate_copies = [in_time, estimate = problem.estimate_copies](
                                    const Plan& plan,
                                    const EqualGroups& groups) {
        return in_time([&] { return estimate(plan, groups); });
      };
  }

  static Result<Planned> fastest(const LoadedProblem& loaded) {
    PIPEWRIGHT_TRY(const Planner* planner, find_planner("auto"));
    Problem problem = loaded.problem;
    problem.wants_bound = false;
    PIPEWRIGHT_TRY(Planned planned,
                   plan_with_tuned_replicas(problem, [&](const Problem& tuned) {
                     return planner->plan(tuned);
                   }));
    if (problem.has_required_stages(planned.plan)) return planned;
    return bad_configuration("no plan of that many stages");
  }

  const Plan& before_;
  const Cluster& cluster_;
  ProblemOptions asked_;
  double end_;
};

// Without a plan training cannot go on: it may then take longer.
Result<Planned> found_in_time(const Plan& before, const Cluster& cluster,
                              ReplanningOptions options) {
  constexpr double kLonger = 20;
  const double end = now_seconds() + options.budget;
  Result<Planned> found = Replanning(before, cluster, options).run();
  if (found || now_seconds() < end) return found;
  options.budget *= kLonger;
  return Replanning(before, cluster, options).run();
}

}  // namespace

Result<Replanned> replanned(const Plan& before, const Cluster& cluster,
                            const ReplanningOptions& options) {
  const double begin = now_seconds();
  PIPEWRIGHT_TRY(Planned planned, found_in_time(before, cluster, options));
  Replanned made;
  PIPEWRIGHT_TRY(made.plan, with_worker_per_device(planned.plan, cluster));
  made.plan.model = before.model;  // it says how checkpoints know the model
  made.plan.number_type = before.number_type;
  made.step = planned.estimate.step;
  made.planning = Seconds(now_seconds() - begin);
  made.keeps_microbatch = made.plan.microbatch == before.microbatch;
  made.keeps_bits = made.keeps_microbatch && is_unreplicated(before) &&
                    is_unreplicated(made.plan);
  return made;
}

}  // namespace pipewright::cli
