#include "cli/serve/plan_search.h"

#include <mutex>

#include "cli/report/compared_plans.h"
#include "pipewright/planners/parallel.h"

namespace pipewright::cli {
namespace {

// Candidates as they come in. Thread-safe.
class GrowingRanking {
 public:
  GrowingRanking(const SearchRequest& request, const LoadedProblem& loaded,
                 const RankingListener& listener)
      : request_(request), loaded_(loaded), listener_(listener) {}

  void add(Candidate candidate) {
    const std::lock_guard lock(mutex_);
    ranked_.push_back(std::move(candidate));
    sort_by_step(ranked_);
    listener_(to_json());
  }

  // The plans that `auto` starts from.
  std::vector<Planned> plans_of(Method method) const {
    std::vector<Planned> plans;
    for (const Candidate& candidate : ranked_)
      if (candidate.method == method && candidate.planned &&
          candidate.planned->estimate.fits)
        plans.push_back(*candidate.planned);
    return plans;
  }

 private:
  Json to_json() const {
    Json json = comparison_json(ranked_, loaded_);
    Json files = Json::array(), commands = Json::array();
    for (const Candidate& candidate : ranked_) {
      files.push(candidate.planned
                     ? pipewright::to_json(candidate.planned->plan)
                     : Json());
      commands.push(
          plan_command(request_.problem, candidate.planner, candidate.method));
    }
    json.set("files", std::move(files));
    json.set("commands", std::move(commands));
    json.set("answered", ranked_.size());
    json.set("asked", request_.planners.size() * request_.methods.size());
    return json;
  }

  const SearchRequest& request_;
  const LoadedProblem& loaded_;
  const RankingListener& listener_;
  std::mutex mutex_;
  std::vector<Candidate> ranked_;
};

bool asks_all_planners(const Planner& planner) {
  return planner.effort() == PlanningEffort::AllPlanners;
}

}  // namespace

Problem ended_problem(const Problem& problem,
                      const std::function<bool()>& is_unwanted) {
  Problem ended = problem;
  const Error unwanted = bad_configuration("the search was stopped");
  ended.estimate =
      [=, estimate = problem.estimate](const Plan& plan) -> Result<Estimate> {
    if (is_unwanted()) return unwanted;
    return estimate(plan);
  };
  if (problem.estimate_copies)
    ended.estimate_copies = [=, estimate = problem.estimate_copies](
                                const Plan& plan,
                                const EqualGroups& groups) -> Result<Estimate> {
      if (is_unwanted()) return unwanted;
      return estimate(plan, groups);
    };
  const double end = now_seconds() + problem.budget.value();
  ended.is_over_ = [=] { return now_seconds() > end || is_unwanted(); };
  return ended;
}

void run_search(const SearchRequest& request, const LoadedProblem& loaded,
                const std::function<bool()>& is_unwanted,
                const RankingListener& listener) {
  GrowingRanking ranking(request, loaded, listener);
  const auto answer = [&](const Planner& planner, Problem problem,
                          const std::vector<Planned>* starts) {
    if (is_unwanted()) return;
    Candidate candidate =
        candidate_of(planner, ended_problem(problem, is_unwanted), starts);
    if (candidate.planned)
      candidate.planned->plan.number_type = loaded.number_type;
    if (!is_unwanted()) ranking.add(std::move(candidate));
  };
  for (Method method : request.methods) {
    Problem problem = loaded.problem;
    problem.method = method;
    Problem single = problem;
    single.threads = 1;
    in_parallel(request.planners.size(), problem.threads, [&](std::size_t i) {
      if (!asks_all_planners(*request.planners[i]))
        answer(*request.planners[i], single, nullptr);
    });
    for (const Planner* planner : request.planners) {
      const std::vector<Planned> starts = ranking.plans_of(method);
      if (asks_all_planners(*planner))
        answer(*planner, problem, starts.empty() ? nullptr : &starts);
    }
  }
}

}  // namespace pipewright::cli
