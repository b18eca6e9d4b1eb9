#include "pipewright/planners/plan_in_time.h"

#include <atomic>
#include <memory>
#include <utility>

#include "pipewright/planners/time_limit.h"

namespace pipewright {
namespace {

constexpr int kMaxLateEstimates = 2;

// What a planner did so far. It may estimate on several threads.
struct Progress {
  std::atomic<bool> has_plan = false;
  std::atomic<int> num_late = 0;  // estimates after the time limit
  std::atomic<bool> was_stopped = false;

  bool may_estimate(bool is_over) {
    if (!is_over) return true;
    if (!has_plan && num_late++ < kMaxLateEstimates) return true;
    was_stopped = true;
    return false;
  }
};

Error ended(const Problem& problem) {
  return ended_before(problem, "a plan that fits was found");
}

// With what the planner has found out until then, if it has tried any plan: how
// much memory the smallest of them needs, and what would be enough.
Error ended_at(const Problem& problem, const Error& refusal) {
  Error error = ended(problem);
  const bool says_no_more = refusal.message == error.message ||
                            refusal.message.starts_with("interrupted before");
  if (says_no_more) return error;
  error.message += "; so far " + refusal.message;
  if (!refusal.hint.empty())
    error.hint += (error.hint.empty() ? "" : "; ") + refusal.hint;
  return error;
}

template <typename... Arguments>
auto until_over(
    std::function<Result<Estimate>(const Plan&, Arguments...)> estimate,
    const Problem& problem, const std::shared_ptr<Progress>& progress) {
  return [estimate = std::move(estimate), &problem, progress](
             const Plan& plan, Arguments... rest) -> Result<Estimate> {
    if (!progress->may_estimate(problem.is_over())) return ended(problem);
    Result<Estimate> result = estimate(plan, rest...);
    if (result && result->fits) progress->has_plan = true;
    return result;
  };
}

}  // namespace

Result<Planned> plan_in_time(const Planner& planner, const Problem& problem) {
  if (!problem.is_over_) return planner.plan(problem);
  const auto progress = std::make_shared<Progress>();
  Problem timed = problem;
  timed.estimate = until_over(problem.estimate, problem, progress);
  if (problem.estimate_copies)
    timed.estimate_copies =
        until_over(problem.estimate_copies, problem, progress);
  Result<Planned> planned = planner.plan(timed);
  if (!planned && progress->was_stopped)
    return ended_at(problem, planned.error());
  return planned;
}

}  // namespace pipewright
