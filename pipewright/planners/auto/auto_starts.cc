#include "pipewright/planners/auto/auto_starts.h"

#include <algorithm>
#include <memory>

#include "pipewright/base/index.h"
#include "pipewright/planners/parallel.h"
#include "pipewright/planners/plan_in_time.h"

namespace pipewright {
namespace {

// Models of more layers are too large for tables over pairs of layers.
constexpr int kMaxQuadraticLayers = 100;

// A planner of a few passes over this many layers takes some hundredths of a
// second.
constexpr int kMaxCheapLayers = 2000;

// Of the budget, for each planner that searches. There are six of them.
constexpr double kSearchShare = 0.06;

// About what things take on one core of a server. A plan's estimate takes time
// for each action and for each layer on each of its devices; between two calls
// of is_over() there is a row of a table, or a step of a search.
constexpr double kActionSeconds = 1e-6;
constexpr double kCellSeconds = 2e-9;
constexpr double kSearchStepSeconds = 5e-5;

bool is_cheap(const Planner& planner) {
  return planner.effort() == PlanningEffort::FixedShape ||
         planner.effort() == PlanningEffort::Linear;
}

// Beyond the budget too: where that takes little time, so that the plan is not
// worse than theirs; and one planner always, so that there is an answer.
bool is_always_asked(const Planner& planner, const Problem& problem) {
  return (is_cheap(planner) &&
          problem.profile->num_layers() <= kMaxCheapLayers) ||
         planner.has_least_memory();
}

double actions_in(const Plan& plan) {
  double actions = 0;
  const auto& sections = plan.schedule.sections();
  for (const Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    for (const auto& order : *orders)
      actions += static_cast<double>(order.size());
  for (const Stage& stage : plan.stages)
    actions +=
        static_cast<double>(stage.workers.size() * (stage.forward.size() + 1));
  return actions;
}

double step_seconds(const Planner& planner, const Problem& problem) {
  if (planner.effort() != PlanningEffort::Quadratic) return kSearchStepSeconds;
  const double devices = problem.cluster->num_devices();
  return kCellSeconds * problem.profile->num_layers() * devices * devices;
}

// The problem with a limit on the work of one planner, which runs on one
// thread. `left` is in seconds.
Problem limited(const Problem& problem, double step,
                const std::shared_ptr<double>& left) {
  Problem limited = problem;
  limited.is_over_ = [outer = problem.is_over_, step, left] {
    *left -= step;
    return *left < 0 || (outer && outer());
  };
  limited.estimate = [estimate = problem.estimate, left](const Plan& plan) {
    *left -= kActionSeconds * actions_in(plan);
    return estimate(plan);
  };
  return limited;
}

struct Asked {
  std::optional<Result<Planned>> result;
  bool was_stopped = false;
};

Asked ask_one(const Planner& planner, const Problem& problem, int turns,
              bool has_plan) {
  Asked asked;
  if (problem.is_over() && (has_plan || !is_always_asked(planner, problem))) {
    asked.was_stopped = true;
    return asked;
  }
  if (is_cheap(planner) || problem.budget <= Seconds(0)) {
    asked.result = plan_in_time(planner, problem);
    return asked;
  }
  const auto left =
      std::make_shared<double>(kSearchShare / turns * problem.budget.value());
  asked.result = plan_in_time(
      planner, limited(problem, step_seconds(planner, problem), left));
  asked.was_stopped = *left < 0;
  return asked;
}

}  // namespace

PlannerList other_planners() {
  PlannerList list;
  for (const auto& planner : planners())
    if (planner->effort() != PlanningEffort::AllPlanners)
      list.push_back(planner.get());
  return list;
}

PlannerList cheap_planners() {
  PlannerList list = other_planners();
  std::erase_if(list,
                [](const Planner* planner) { return !is_cheap(*planner); });
  return list;
}

PlannerList quick_planners(const Problem& problem) {
  const int layers = problem.profile->num_layers();
  PlannerList list = other_planners();
  std::erase_if(list, [&](const Planner* planner) {
    switch (planner->effort()) {
      case PlanningEffort::Linear:
        return false;
      case PlanningEffort::Quadratic:
        return layers > kMaxQuadraticLayers;
      case PlanningEffort::FixedShape:
      case PlanningEffort::Search:
      case PlanningEffort::AllPlanners:
        break;
    }
    return true;
  });
  return list;
}

AutoStarts ask(const PlannerList& list, const Problem& problem, int turns,
               bool has_plan) {
  Problem single = problem;
  single.estimator_for = nullptr;  // the hint is computed once, by auto
  single.any_planner = true;
  single.wants_bound = false;
  std::vector<Asked> asked(list.size());
  for (const bool cheap : {!has_plan, has_plan}) {
    std::vector<std::size_t> some;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (is_cheap(*list[i]) == cheap) some.push_back(i);
    in_parallel(some.size(), problem.threads, [&](std::size_t i) {
      const std::size_t p = some[i];
      asked[p] = ask_one(*list[p], single, turns, has_plan);
    });
  }
  AutoStarts starts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string name = list[i]->name();
    if (asked[i].was_stopped) starts.stopped.push_back(name);
    if (!asked[i].result) continue;
    const Result<Planned>& result = *asked[i].result;
    if (result && result->estimate.fits) {
      if (problem.has_required_stages(result->plan))
        starts.plans.push_back(*result);
    } else if (!result && (!starts.refusal || list[i]->has_least_memory())) {
      starts.refusal = {name, result.error()};
    }
  }
  return starts;
}

}  // namespace pipewright
