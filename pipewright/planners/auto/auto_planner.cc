// auto: takes the best plan of all planners and improves it. The method is
// ours.
//
//   1. Starts: the plans of all other planners, every even division of the
//      devices into stages and replicas, and every pair of stages.
//   2. The best starts are tried with every schedule, with and without
//      recompute.
//   3. The best of those are improved by single changes (auto_moves.h), each
//      scored by the simulator.
//
// The result is never worse than that of a single planner that answered in
// time, because a start that cannot be improved is kept.
//
// Where hosts are equal, a plan for one group of hosts is copied to the others
// (copies.h). Beyond 64 devices nothing else is tried, so that a thousand
// devices take no longer than a few. A planner that looks at all devices may
// then find a better plan.

#include "pipewright/planners/auto/auto_planner.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/auto/auto_search.h"
#include "pipewright/planners/auto/auto_shapes.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/copies.h"
#include "pipewright/planners/parallel.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

// Clusters of more devices are planned by copying a plan for a group.
constexpr int kMaxWholeDevices = 64;
constexpr int kMaxGroupDevices = 16;
// Models of more layers are too large for tables over pairs of layers.
constexpr int kMaxQuadraticLayers = 100;

// How much is searched.
struct SearchLimits {
  double actions;           // simulated, in all
  std::size_t rescheduled;  // pipelines tried with all schedules
  std::size_t improved;
};
// One to two seconds on one core, and some tenths of a second.
constexpr SearchLimits kWhole{2e6, 4, 4};
constexpr SearchLimits kGroup{5e4, 1, 2};

// If there are at most this many pipelines, all of them are tried.
constexpr std::size_t kMaxPipelines = 3000;
constexpr double kPlannersShare = 0.6;  // of the budget

using PlannerList = std::vector<const Planner*>;

PlannerList other_planners() {
  PlannerList list;
  for (const auto& planner : planners())
    if (planner->effort() != PlanningEffort::AllPlanners)
      list.push_back(planner.get());
  return list;
}

// The planners that are worth their time for one group of a large cluster.
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

std::function<bool()> time_limit(const Problem& problem, double share) {
  if (problem.budget <= Seconds(0)) return problem.is_over_;
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::duration<double>(problem.budget.value() * share);
  return [outer = problem.is_over_, end] {
    return std::chrono::steady_clock::now() > end || (outer && outer());
  };
}

// One balanced stage per device usually needs the least memory per device, so
// this planner's error says best how much is missing.
constexpr const char* kLeastMemoryPlanner = "balanced";

struct Refusal {
  std::string planner;
  Error error;
};

// The results of several planners.
struct Answers {
  std::vector<Planned> plans;  // those that fit, in the order of planners()
  std::optional<Refusal> refusal;
};

Answers ask(const PlannerList& list, const Problem& problem) {
  Problem asked = problem;
  asked.is_over_ = time_limit(problem, kPlannersShare);
  asked.estimator_for = nullptr;  // the hint is computed once, by auto
  asked.any_planner = true;
  std::vector<std::optional<Result<Planned>>> results(list.size());
  in_parallel(list.size(), problem.threads,
              [&](std::size_t i) { results[i] = list[i]->plan(asked); });
  Answers answers;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Result<Planned>& result = *results[i];
    const std::string name = list[i]->name();
    if (result && result->estimate.fits) {
      if (problem.has_required_stages(result->plan))
        answers.plans.push_back(*result);
    } else if (!result && (!answers.refusal || name == kLeastMemoryPlanner)) {
      answers.refusal = {name, result.error()};
    }
  }
  return answers;
}

Error error_of(Refusal refusal, const Problem& problem) {
  if (refusal.planner == kLeastMemoryPlanner)
    refusal.error.hint = more_devices_hint(problem, "auto");
  return refusal.error;
}

Error nothing_found(const Problem& problem) {
  if (problem.stages > 0)
    return bad_configuration("found no plan of " +
                                 std::to_string(problem.stages) +
                                 " stages that fits",
                             "change --stages, or leave it out");
  return bad_configuration("no plan fits", more_devices_hint(problem, "auto"));
}

std::string improvement_text(const AutoPlan& best, Seconds start) {
  const double gain = 1 - best.planned.estimate.step / start;
  return gain > 0 ? "It started as a plan of " + best.origin +
                        "; changes made it " + to_text(100 * gain) +
                        " % faster than the best single planner's plan, as "
                        "simulated."
                  : "It is the plan of " + best.origin +
                        "; no single change made it faster.";
}

// The best of the starts, improved.
Result<Planned> search_from(const Problem& problem,
                            const std::vector<Planned>& starts,
                            const SearchLimits& limits) {
  PIPEWRIGHT_TRY(const AutoCosts costs, AutoCosts::create(problem));
  AutoSearch search(costs, limits.actions);
  std::vector<std::string> notes;
  Seconds fastest = Seconds::max();
  for (const Planned& start : starts) {
    search.add(
        AutoPlan{pipeline_of_plan(start.plan), start, start.plan.planner});
    fastest = std::min(fastest, start.estimate.step);
    notes.push_back(start.plan.planner + ": " + shape_text(start.plan) + ", " +
                    to_text(start.estimate.step));
  }
  const std::vector<Pipeline> plain = plain_shapes(costs);
  search.add(plain, "auto");
  search.add(with_recompute(plain), "auto");
  search.add(uneven_pairs(costs), "auto");
  const std::vector<Pipeline> every = every_pipeline(costs, kMaxPipelines);
  const bool all = !every.empty() && search.search_all(every, "auto");
  search.reschedule(limits.rescheduled);
  search.improve(limits.improved);
  if (search.is_empty() && search.was_cut_short())
    return bad_configuration(
        "the budget ended before a plan was found",
        "give more than --budget " + to_text(problem.budget.value()));
  if (search.is_empty()) return bad_configuration("found no plan");
  Planned best = search.best().planned;
  if (fastest == Seconds::max()) fastest = best.estimate.step;
  best.why = improvement_text(search.best(), fastest);
  if (all)
    notes.push_back("at least as good as all " +
                    with_thousands(int(every.size())) +
                    " pipelines with one stage per device: each was simulated, "
                    "or keeps a device busy for longer");
  notes.push_back(with_thousands(search.num_scored()) +
                  " more pipelines were simulated" +
                  (search.was_cut_short()
                       ? "; the budget ended the search, so another run may "
                         "find another plan"
                       : ""));
  best.notes = std::move(notes);
  return best;
}

// The problem of one of several equal groups of devices.
struct GroupProblem {
  Cluster cluster;
  Problem problem;
};

// With `few_microbatches` only the larger microbatch sizes: many more
// microbatches than stages fill the pipeline no better, and are worth their
// time only where memory is short.
std::optional<GroupProblem> group_problem(const Problem& whole, int size,
                                          bool few_microbatches) {
  const int copies = whole.cluster->num_devices() / size;
  if (whole.minibatch % copies != 0) return {};
  Result<Cluster> cluster = first_devices(*whole.cluster, size);
  if (!cluster) return {};
  GroupProblem group{*std::move(cluster), whole};
  Problem& problem = group.problem;
  problem.minibatch /= copies;
  problem.microbatches.clear();
  for (int microbatch : whole.microbatches)
    if (microbatch % copies == 0 &&
        (!few_microbatches ||
         whole.minibatch / microbatch <= std::max(8, 4 * size)))
      problem.microbatches.push_back(microbatch / copies);
  if (problem.microbatches.empty()) return {};
  problem.estimate = [&whole, copies](const Plan& plan) {
    return whole.estimate_copies(plan, copies);
  };
  problem.estimate_copies = nullptr;
  return group;
}

Refusal refusal_of(Problem group, const Error& error) {
  group.any_planner = true;
  const auto nearest = find_planner(kLeastMemoryPlanner).value()->plan(group);
  return nearest ? Refusal{"auto", error}
                 : Refusal{kLeastMemoryPlanner, nearest.error()};
}

// Memory per worker of all copies, from that of the plan that is copied.
std::vector<Bytes> copied_memory(const Planned& planned, std::size_t copies) {
  std::vector<Bytes> memory(planned.plan.devices.size() * copies);
  for (const Stage& stage : planned.plan.stages) {
    const std::size_t count = stage.workers.size();
    const std::size_t first = stage.workers.front().index();
    for (std::size_t i = 0; i < count * copies; ++i)
      memory[first * copies + i] = planned.estimate.memory[first + i % count];
  }
  return memory;
}

std::optional<Planned> plan_in_copies(const Problem& whole, int size,
                                      bool few_microbatches,
                                      std::optional<Refusal>& refusal) {
  std::optional<GroupProblem> group =
      group_problem(whole, size, few_microbatches);
  if (!group) return {};
  group->problem.cluster = &group->cluster;
  const bool is_large = whole.cluster->num_devices() > kMaxWholeDevices;
  const Answers answers =
      ask(is_large ? quick_planners(whole) : other_planners(), group->problem);
  Result<Planned> best = search_from(group->problem, answers.plans, kGroup);
  if (!best) {
    refusal = whole.is_over() ? Refusal{"auto", best.error()}
                              : refusal_of(group->problem, best.error());
    return {};
  }
  const int copies = whole.cluster->num_devices() / size;
  Result<Plan> plan = copies_of(best->plan, copies, size);
  if (!plan) return {};
  best->estimate.memory = copied_memory(*best, at(copies));
  best->plan = *std::move(plan);
  best->why += " It is copied to " + std::to_string(copies) +
               " equal groups of " + std::to_string(size) + " devices.";
  return *std::move(best);
}

}  // namespace

Result<Planned> best_plan(const Problem& problem,
                          const std::vector<Planned>& starts) {
  std::vector<Planned> all;
  std::optional<Refusal> refusal;
  const int devices = problem.cluster->num_devices();
  std::vector<int> sizes;
  if (problem.estimate_copies && devices > kMaxGroupDevices)
    sizes = equal_groups(*problem.cluster, kMaxGroupDevices);
  for (bool few_microbatches : {true, false})
    for (int size : sizes) {
      if (!few_microbatches && !all.empty()) break;
      if (refusal && problem.is_over()) break;
      if (auto copied =
              plan_in_copies(problem, size, few_microbatches, refusal))
        all.push_back(*std::move(copied));
    }
  if (devices <= kMaxWholeDevices || (all.empty() && !refusal)) {
    if (Result<Planned> found = search_from(problem, starts, kWhole))
      all.push_back(*std::move(found));
  }
  all.insert(all.end(), starts.begin(), starts.end());
  if (all.empty())
    return refusal ? error_of(*refusal, problem) : nothing_found(problem);
  Planned best = *std::min_element(all.begin(), all.end(),
                                   [](const Planned& a, const Planned& b) {
                                     return a.estimate.step < b.estimate.step;
                                   });
  best.plan.planner = "auto";
  best.lower_bound = lower_bound(problem);
  best.promised = best.estimate.step;
  best.bottleneck = best.promised / best.plan.num_microbatches();
  return best;
}

namespace {

class AutoPlanner : public Planner {
 public:
  std::string name() const override { return "auto"; }
  std::string summary() const override {
    return "the best of all planners and schedules, then improved step by step";
  }
  std::string source() const override { return "ours"; }
  PlanningEffort effort() const override { return PlanningEffort::AllPlanners; }

  Result<Planned> plan(const Problem& problem) const override {
    const bool in_copies =
        problem.cluster->num_devices() > kMaxWholeDevices &&
        problem.estimate_copies &&
        !equal_groups(*problem.cluster, kMaxGroupDevices).empty();
    Answers answers;
    if (!in_copies) answers = ask(other_planners(), problem);
    Problem without_hint = problem;
    without_hint.estimator_for = nullptr;
    Result<Planned> best = best_plan(without_hint, answers.plans);
    if (best || !answers.refusal || problem.stages > 0) return best;
    return error_of(*answers.refusal, problem);
  }
};

}  // namespace

std::unique_ptr<Planner> auto_planner() {
  return std::make_unique<AutoPlanner>();
}

}  // namespace pipewright
