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
// The result is never worse than that of a planner that finished, because a
// start that cannot be improved is kept. Planners and search are limited by
// work (auto_starts.h), so that the plan depends neither on the machine nor on
// the number of threads unless the budget runs out.
//
// Where hosts are equal, plans for one group of hosts are copied to the others
// (copies.h). That takes little time and comes first, so that there is a good
// plan where the budget runs out. Groups need not have equally many samples,
// and some hosts may be left without work, so that one host more or less makes
// little difference.
//
// Beyond 64 devices also pipelines with many stages per worker are tried, and
// pipelines with an order of their own over groups of whole hosts or over the
// devices of one (host_plans.h), but nothing for all devices together, so that
// a thousand devices take no longer than a few. A planner that looks at all
// devices may then find a better plan.

#include "pipewright/planners/auto/auto_planner.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/auto/auto_search.h"
#include "pipewright/planners/auto/auto_shapes.h"
#include "pipewright/planners/auto/auto_starts.h"
#include "pipewright/planners/auto/group_problem.h"
#include "pipewright/planners/auto/host_plans.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/bounds/copies_bound.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/copies.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/planners/time_limit.h"
#include "pipewright/planners/tuned_replicas.h"

namespace pipewright {
namespace {

// Clusters of more devices are planned by copying a plan for a group.
constexpr int kMaxWholeDevices = 64;
constexpr int kMaxGroupDevices = 16;
// Where groups cannot have equally many samples, larger groups differ less.
constexpr int kMaxUnevenGroupDevices = 32, kMaxUnevenHosts = 4;
constexpr double kMinEvenShare = 0.5;

// How much is searched.
struct SearchLimits {
  double actions;           // simulated, in all
  std::size_t rescheduled;  // pipelines tried with all schedules
  std::size_t improved;
  bool looped = false;  // whether looped shapes are tried
};
// One to two seconds on one core, and some tenths of a second.
constexpr SearchLimits kWhole{2e6, 4, 4};
constexpr SearchLimits kGroup{5e4, 1, 2};

// If there are at most this many pipelines, all of them are tried.
constexpr std::size_t kMaxPipelines = 3000;
// Of the budget, on one core.
constexpr double kSearchedShare = 0.3;
constexpr double kActionsPerSecond = 1.3e6;

// The limits of a search that has one of `turns` equal shares of the budget. By
// work, so that the plan does not depend on the machine.
SearchLimits within_budget(SearchLimits limits, const Problem& problem,
                           int turns) {
  if (problem.budget > Seconds(0))
    limits.actions =
        std::min(limits.actions, kSearchedShare * problem.budget.value() /
                                     turns * kActionsPerSecond);
  return limits;
}

Error error_of(AutoRefusal refusal, const Problem& problem) {
  if (refusal.planner == least_memory_planner().name() && !problem.is_over())
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

// "dapple and spp".
std::string names_text(std::vector<std::string> names) {
  if (names.size() < 2) return join(names, "");
  const std::string last = names.back();
  names.pop_back();
  return join(names, ", ") + " and " + last;
}

// What the budget prevented.
std::string budget_text(const Problem& problem,
                        const std::vector<std::string>& stopped,
                        bool was_cut_short) {
  const std::string budget = to_text(problem.budget.value()) + " s";
  if (problem.is_interrupted())
    return " The search was interrupted; with more time the plan may differ.";
  if (was_cut_short && problem.is_over())
    return problem.budget > Seconds(0)
               ? " The budget of " + budget +
                     " ran out; with more time or another number of threads "
                     "the plan may differ."
               : "";
  if (stopped.empty()) return "";
  return " " + names_text(stopped) + " did not finish in " +
         (stopped.size() == 1 ? "its share" : "their shares") +
         " of the budget of " + budget + ".";
}

// Estimates of large plans are of plans as they are (tuned_replicas.h).
std::string untuned_text(int devices) {
  return devices > kMaxSearchedWorkers
             ? " Theirs were simulated without buckets for sums of gradients."
             : "";
}

std::string improvement_text(const AutoPlan& best, Seconds start) {
  const double gain = 1 - best.planned.estimate.step / start;
  const std::string origin = best.origin == "auto"
                                 ? "It is auto's own"
                                 : "It is a plan of " + best.origin;
  if (start == Seconds::max())
    return origin + "; no other planner found a plan that fits.";
  if (gain <= 0) return origin + "; no single change made it faster.";
  return origin + ", improved: " + to_text(100 * gain) +
         " % faster than the best plan of the other planners, as simulated." +
         untuned_text(best.planned.plan.num_workers());
}

const Planned& fastest_of(const std::vector<Planned>& plans) {
  return *std::min_element(plans.begin(), plans.end(),
                           [](const Planned& a, const Planned& b) {
                             return a.estimate.step < b.estimate.step;
                           });
}

// For when there is no time to search.
Planned best_start(const Problem& problem, const std::vector<Planned>& starts) {
  Planned best = fastest_of(starts);
  best.why = "It is a plan of " + best.plan.planner + "." +
             budget_text(problem, {}, true);
  return best;
}

// The best of the starts, improved.
Result<Planned> search_from(const Problem& problem,
                            const std::vector<Planned>& starts,
                            const std::vector<std::string>& stopped,
                            const SearchLimits& limits) {
  if (problem.is_over() && !starts.empty()) return best_start(problem, starts);
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
  if (limits.looped) search.add(looped_shapes(costs), "auto");
  const std::vector<Pipeline> every = every_pipeline(costs, kMaxPipelines);
  const bool all = !every.empty() && search.search_all(every, "auto");
  search.reschedule(limits.rescheduled);
  search.improve(limits.improved);
  if (search.is_empty() && search.was_cut_short())
    return ended_before(problem, "a plan was found");
  if (search.is_empty()) return bad_configuration("found no plan");
  Planned best = search.best().planned;
  best.layer_groups = 0;  // it moves single layers
  best.why = improvement_text(search.best(), fastest) +
             budget_text(problem, stopped, search.was_cut_short());
  if (all)
    notes.push_back("at least as good as all " +
                    with_thousands(int(every.size())) +
                    " pipelines with one stage per device: each was simulated, "
                    "cannot fit, or keeps a device busy for longer");
  notes.push_back(
      with_thousands(search.num_scored()) + " more pipelines were simulated" +
      (search.was_cut_short()
           ? std::string("; ") +
                 (problem.is_interrupted() ? "Ctrl-C" : "the budget") +
                 " ended the search, so another run may find "
                 "another plan"
           : ""));
  best.notes = std::move(notes);
  return best;
}

AutoRefusal refusal_of(Problem group, const Error& error) {
  group.any_planner = true;
  const Planner& planner = least_memory_planner();
  const auto nearest = planner.plan(group);
  return nearest ? AutoRefusal{"auto", error}
                 : AutoRefusal{planner.name(), nearest.error()};
}

// Before groups that cannot have equally many samples those of them that can,
// if that leaves few devices without work.
std::vector<EqualGroups> with_even_groups(
    const std::vector<EqualGroups>& groups, int minibatch) {
  std::vector<EqualGroups> all;
  for (const EqualGroups& each : groups) {
    EqualGroups even = each;
    while (minibatch % even.count != 0) --even.count;
    if (even != each && even.count >= kMinEvenShare * each.count)
      all.push_back(even);
    all.push_back(each);
  }
  return all;
}

// Groups of a few hosts of which some, or all, cannot have equally many
// samples.
std::vector<EqualGroups> uneven_groups(const Problem& problem, int host) {
  const int max_size = std::min(kMaxUnevenGroupDevices, kMaxUnevenHosts * host);
  return with_even_groups(equal_groups(*problem.cluster, max_size),
                          problem.minibatch);
}

// The whole cluster is a group, too, if it is not larger than others may be.
std::vector<EqualGroups> groups_of_devices(const Problem& problem) {
  const int devices = problem.cluster->num_devices();
  if (!problem.estimate_copies || devices <= kMaxGroupDevices) return {};
  std::vector<EqualGroups> groups =
      equal_groups(*problem.cluster, kMaxGroupDevices);
  if (!groups.empty() && problem.minibatch % groups.front().count != 0)
    groups = uneven_groups(problem, groups.front().size);
  else
    std::erase_if(groups, [devices](const EqualGroups& each) {
      return each.count * each.size != devices;
    });
  if (devices <= kMaxUnevenGroupDevices) groups.push_back({1, devices});
  return groups;
}

// How many searches share the budget: those of groups, which take little time,
// and that of the whole cluster.
int num_turns(const Problem& problem) {
  return groups_of_devices(problem).empty() ? 1 : 2;
}

bool is_large(const Problem& problem) {
  return problem.cluster->num_devices() > kMaxWholeDevices;
}

// Whether planning for all devices at once is left out.
bool is_planned_in_copies(const Problem& problem) {
  return is_large(problem) && !groups_of_devices(problem).empty();
}

// A plan for one group, copied to all.
class CopiedPlans {
 public:
  // The arguments must outlive this object.
  CopiedPlans(const Problem& whole, std::optional<AutoRefusal>& refusal)
      : whole_(whole),
        turns_(num_turns(whole)),
        sizes_(groups_of_devices(whole)),
        refusal_(refusal) {}

  // The best, if it is faster than what is known.
  void improve(std::optional<Copied>& best, const EqualGroups& groups,
               bool few_microbatches) {
    for (const auto& group : group_problems(whole_, groups, few_microbatches)) {
      if (whole_.is_over() && (best || refusal_)) break;
      if (best && least_step(*group) >= best->planned.estimate.step) continue;
      auto plan = of_group(*group);
      if (plan &&
          (!best || plan->planned.estimate.step < best->planned.estimate.step))
        best = std::move(plan);
    }
  }

 private:
  // Each group computes as many samples as the largest.
  Seconds least_step(const GroupProblem& group) const {
    const double samples = double(group.problem.minibatch) * group.groups.count;
    return std::max(
        copies_bound(whole_, group.groups),
        copies_work(whole_, group.groups) * (samples / whole_.minibatch));
  }

  std::optional<Copied> of_group(const GroupProblem& group) {
    const AutoStarts starts =
        ask(quick_planners(whole_), group.problem, turns_, false);
    SearchLimits limits = within_budget(kGroup, whole_, turns_);
    limits.looped = group.groups.size == sizes_.front().size;
    Result<Planned> best =
        search_from(group.problem, starts.plans, starts.stopped, limits);
    if (!best) {
      refusal_ = whole_.is_over() ? AutoRefusal{"auto", best.error()}
                                  : refusal_of(group.problem, best.error());
      return {};
    }
    if (!starts.plans.empty() && group.groups.size <= kMaxSearchedWorkers)
      best->why += untuned_text(whole_.cluster->num_devices());
    return copied(*std::move(best), whole_, group.groups);
  }

  const Problem& whole_;
  const int turns_;
  const std::vector<EqualGroups> sizes_;
  std::optional<AutoRefusal>& refusal_;
};

// The best plan for a group of hosts, copied to all hosts.
std::optional<Planned> best_copies(const Problem& problem,
                                   std::optional<AutoRefusal>& refusal) {
  const std::vector<EqualGroups> sizes = groups_of_devices(problem);
  if (sizes.empty()) return {};
  std::optional<Copied> best;
  const auto known = [&] {
    return best ? best->planned.estimate.step : Seconds::max();
  };
  std::optional<HostPlans> by_hosts;
  const auto try_hosts = [&] {
    if (auto plan = by_hosts->best(known())) best = std::move(plan);
    by_hosts.reset();
  };
  if (is_large(problem)) by_hosts.emplace(problem);
  // Where summing alone takes longer, copies of small groups are not tried.
  if (by_hosts && by_hosts->predicted() < copies_bound(problem, sizes.front()))
    try_hosts();
  CopiedPlans copies(problem, refusal);
  for (bool few_microbatches : {true, false})
    for (const EqualGroups& groups : sizes) {
      if (!few_microbatches && best) break;
      if ((refusal || best) && problem.is_over()) break;
      copies.improve(best, groups, few_microbatches);
    }
  if (by_hosts) try_hosts();
  if (!best) return {};
  return simulated(*std::move(best), problem);
}

// The plans of other planners, asked when they are needed.
class OtherPlans {
 public:
  using Ask = std::function<AutoStarts(bool has_plan)>;
  explicit OtherPlans(Ask ask) : ask_(std::move(ask)) {}

  const AutoStarts& starts(bool has_plan) {
    if (!starts_) starts_ = ask_(has_plan);
    return *starts_;
  }
  // Nothing where they were not needed.
  std::optional<AutoRefusal> refusal() const {
    return starts_ ? starts_->refusal : std::nullopt;
  }

 private:
  Ask ask_;
  std::optional<AutoStarts> starts_;
};

// Copies first: they take little time, and are good plans where the budget runs
// out. Plans for all devices of a large cluster only where there are no copies.
Result<Planned> best_of(const Problem& problem, OtherPlans& others) {
  std::optional<AutoRefusal> refusal;
  std::vector<Planned> all;
  if (auto copies = best_copies(problem, refusal))
    all.push_back(*std::move(copies));
  const bool in_copies = is_planned_in_copies(problem);
  if (!in_copies || all.empty()) {
    const AutoStarts& starts = others.starts(!all.empty());
    if (!in_copies || (starts.plans.empty() && !refusal)) {
      if (Result<Planned> found =
              search_from(problem, starts.plans, starts.stopped,
                          within_budget(kWhole, problem, num_turns(problem))))
        all.push_back(*std::move(found));
    }
    all.insert(all.end(), starts.plans.begin(), starts.plans.end());
  }
  if (all.empty())
    return refusal ? error_of(*refusal, problem) : nothing_found(problem);
  Planned best = fastest_of(all);
  best.plan.planner = "auto";
  best.lower_bound = lower_bound(problem);
  best.promised = best.estimate.step;
  best.bottleneck = best.promised / best.plan.num_microbatches();
  return best;
}

class AutoPlanner : public Planner {
 public:
  std::string name() const override { return "auto"; }
  std::string summary() const override {
    return "the best of all planners and schedules, then improved step by step";
  }
  std::string source() const override { return "ours"; }
  PlanningEffort effort() const override { return PlanningEffort::AllPlanners; }

  Result<Planned> plan(const Problem& problem) const override {
    OtherPlans others([&](bool has_plan) {
      return ask(
          is_planned_in_copies(problem) ? cheap_planners() : other_planners(),
          problem, num_turns(problem), has_plan);
    });
    Problem without_hint = problem;
    without_hint.estimator_for = nullptr;
    Result<Planned> best = best_of(without_hint, others);
    if (best || !others.refusal() || problem.stages > 0) return best;
    return error_of(*others.refusal(), problem);
  }
};

}  // namespace

Result<Planned> best_plan(const Problem& problem,
                          const std::vector<Planned>& starts) {
  OtherPlans others([&](bool) { return AutoStarts{starts, {}, {}}; });
  return best_of(problem, others);
}

std::unique_ptr<Planner> auto_planner() {
  return std::make_unique<AutoPlanner>();
}

}  // namespace pipewright
