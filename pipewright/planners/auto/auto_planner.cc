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
// Where hosts are equal, a plan for one group of hosts is copied to the others
// (copies.h). Beyond 64 devices also pipelines with many stages per worker are
// tried, and pipelines with an order of their own over groups of whole hosts or
// over the devices of one (host_stages.h), but nothing for all devices
// together, so that a thousand devices take no longer than a few. A planner
// that looks at all devices may then find a better plan.

#include "pipewright/planners/auto/auto_planner.h"

#include <algorithm>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/planners/auto/auto_search.h"
#include "pipewright/planners/auto/auto_shapes.h"
#include "pipewright/planners/auto/auto_starts.h"
#include "pipewright/planners/auto/host_stages.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/bounds/copies_bound.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/copies.h"
#include "pipewright/planners/planner_registry.h"
#include "pipewright/planners/refusal.h"
#include "pipewright/planners/tuned_replicas.h"

namespace pipewright {
namespace {

// Clusters of more devices are planned by copying a plan for a group.
constexpr int kMaxWholeDevices = 64;
constexpr int kMaxGroupDevices = 16;

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

// Pipelines with stages on whole hosts are simulated for at most two of their
// copies, so with fewer groups nothing would be gained.
constexpr int kMinHostCopies = 3;
// Changes of pipelines on whole hosts: of each number of hosts per group, and
// of the best two, and then of the order in these. Of pipelines inside a host.
// How many times as long as a step that is known theirs may take before: more
// is hardly gained.
constexpr int kFirstTries = 1500, kTries = 3000, kOrderTries = 500;
constexpr int kFirstTriesInHost = 1000, kTriesInHost = 6000;
constexpr std::size_t kMaxImproved = 2;
constexpr double kWorthImproving = 1.25, kWorthImprovingAgain = 1.1,
                 kWorthSimulating = 0.98;

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
    return bad_configuration(
        "the budget ended before a plan was found",
        "give more than --budget " + to_text(problem.budget.value()));
  if (search.is_empty()) return bad_configuration("found no plan");
  Planned best = search.best().planned;
  best.why = improvement_text(search.best(), fastest) +
             budget_text(problem, stopped, search.was_cut_short());
  if (all)
    notes.push_back("at least as good as all " +
                    with_thousands(int(every.size())) +
                    " pipelines with one stage per device: each was simulated, "
                    "cannot fit, or keeps a device busy for longer");
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

AutoRefusal refusal_of(Problem group, const Error& error) {
  group.any_planner = true;
  const Planner& planner = least_memory_planner();
  const auto nearest = planner.plan(group);
  return nearest ? AutoRefusal{"auto", error}
                 : AutoRefusal{planner.name(), nearest.error()};
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

// The plan for all copies of a group of `size` devices.
std::optional<Planned> copied(Planned best, int copies, int size) {
  Result<Plan> plan = copies_of(best.plan, copies, size);
  if (!plan) return {};
  best.estimate.memory = copied_memory(best, at(copies));
  best.plan = *std::move(plan);
  best.why += " It is copied to " + std::to_string(copies) +
              " equal groups of " + std::to_string(size) + " devices.";
  return best;
}

std::vector<int> group_sizes(const Problem& problem) {
  if (!problem.estimate_copies ||
      problem.cluster->num_devices() <= kMaxGroupDevices)
    return {};
  return equal_groups(*problem.cluster, kMaxGroupDevices);
}

std::optional<Planned> plan_in_copies(const Problem& whole, int size,
                                      bool few_microbatches, int turns,
                                      std::optional<AutoRefusal>& refusal) {
  std::optional<GroupProblem> group =
      group_problem(whole, size, few_microbatches);
  if (!group) return {};
  group->problem.cluster = &group->cluster;
  const bool is_large = whole.cluster->num_devices() > kMaxWholeDevices;
  const AutoStarts starts =
      ask(is_large ? quick_planners(whole) : other_planners(), group->problem,
          turns);
  SearchLimits limits = within_budget(kGroup, whole, turns);
  limits.looped = is_large && size == group_sizes(whole).front();
  Result<Planned> best =
      search_from(group->problem, starts.plans, starts.stopped, limits);
  if (!best) {
    refusal = whole.is_over() ? AutoRefusal{"auto", best.error()}
                              : refusal_of(group->problem, best.error());
    return {};
  }
  if (!starts.plans.empty() && size <= kMaxSearchedWorkers)
    best->why += untuned_text(whole.cluster->num_devices());
  return copied(*std::move(best), whole.cluster->num_devices() / size, size);
}

// A group of hosts, and a pipeline for it.
struct HostGroup {
  GroupProblem group;
  int size = 0, copies = 0;
  std::unique_ptr<HostSearch> search;

  void improve() const {
    if (is_one_host()) {
      search->improve_all(kTriesInHost);
    } else {
      search->improve(kTries);
      search->improve_order(kOrderTries);
    }
  }
  // A little.
  void improve_first() const {
    if (is_one_host())
      search->improve_all(kFirstTriesInHost);
    else
      search->improve(kFirstTries);
  }
  bool is_one_host() const { return group.cluster.num_hosts() == 1; }
};

std::unique_ptr<HostGroup> host_group(const Problem& whole, int size) {
  const int devices = whole.cluster->num_devices();
  if (devices % size != 0 || devices / size < kMinHostCopies ||
      !has_equal_groups(*whole.cluster, size))
    return nullptr;
  std::optional<GroupProblem> group = group_problem(whole, size, true);
  if (!group) return nullptr;
  auto made = std::make_unique<HostGroup>(
      HostGroup{*std::move(group), size, devices / size, nullptr});
  made->group.problem.cluster = &made->group.cluster;
  const Problem& problem = made->group.problem;
  if (made->group.cluster.num_hosts() > 1) {
    made->search = HostSearch::create(problem, made->copies);
  } else if (const auto two = first_devices(*whole.cluster, 2 * size); two) {
    const std::vector<Islands> hosts = islands_of(*two);
    if (!hosts.empty())
      made->search =
          HostSearch::create_in_host(problem, made->copies, hosts.front());
  }
  if (!made->search) return nullptr;
  return made;
}

// The best plan with stages on whole hosts, copied to all groups of hosts.
class HostPlans {
 public:
  explicit HostPlans(const Problem& whole) : whole_(whole) {
    const int hosts = std::max(1, whole.cluster->num_hosts());
    for (int count : {1, 8, 16, 32})
      if (auto group =
              host_group(whole, count * whole.cluster->num_devices() / hosts))
        groups_.push_back(std::move(group));
    sort();
  }

  // The step of the best pipeline so far.
  Seconds predicted() const {
    return groups_.empty() ? Seconds::max()
                           : groups_.front()->search->predicted();
  }

  // A plan with a shorter step than the one that is known.
  std::optional<Planned> best(Seconds known) {
    improve(known);
    std::optional<Planned> best;
    const HostGroup* group = nullptr;
    keep_below(known * kWorthSimulating);
    for (const auto& each : groups_) {
      if (each->search->predicted() >= known || whole_.is_over()) break;
      Result<Planned> tried = each->search->plan();
      if (!tried || !tried->estimate.fits || tried->estimate.step >= known ||
          !whole_.has_required_stages(tried->plan))
        continue;
      best = *std::move(tried);
      known = best->estimate.step;
      group = each.get();
    }
    if (!best) return {};
    best->why = group->is_one_host()
                    ? "It is auto's own, with an order of its own."
                    : "It is auto's own, with stages on whole hosts.";
    return copied(*std::move(best), group->copies, group->size);
  }

 private:
  // All that are near what is known a little, and the best of those further.
  void improve(Seconds known) {
    keep_below(known * kWorthImproving);
    for (const auto& group : groups_) group->improve_first();
    sort();
    keep_below(known * kWorthImprovingAgain);
    groups_.resize(std::min(groups_.size(), kMaxImproved));
    // Inside a host each change takes long: only if that is best so far.
    for (std::size_t g = 0; g < groups_.size(); ++g)
      if (g == 0 || !groups_[g]->is_one_host()) groups_[g]->improve();
    sort();
  }

  void keep_below(Seconds limit) {
    std::erase_if(groups_, [limit](const auto& group) {
      return group->search->predicted() >= limit;
    });
  }

  void sort() {
    std::stable_sort(groups_.begin(), groups_.end(),
                     [](const auto& a, const auto& b) {
                       return a->search->predicted() < b->search->predicted();
                     });
  }

  const Problem& whole_;
  std::vector<std::unique_ptr<HostGroup>> groups_;  // the best first
};

// How many searches share the budget: one per group size, and one of the whole
// cluster.
int num_turns(const Problem& problem) {
  return static_cast<int>(group_sizes(problem).size()) + 1;
}

Result<Planned> best_of_starts(const Problem& problem,
                               const AutoStarts& starts) {
  std::vector<Planned> all;
  std::optional<AutoRefusal> refusal;
  const int devices = problem.cluster->num_devices();
  const std::vector<int> sizes = group_sizes(problem);
  const int turns = num_turns(problem);
  const auto known = [&] {
    return all.empty() ? Seconds::max() : fastest_of(all).estimate.step;
  };
  std::optional<HostPlans> by_hosts;
  const auto try_hosts = [&] {
    if (auto plan = by_hosts->best(known())) all.push_back(*std::move(plan));
    by_hosts.reset();
  };
  if (devices > kMaxWholeDevices && !sizes.empty()) by_hosts.emplace(problem);
  // Where summing alone takes longer, copies of small groups are not tried.
  if (by_hosts && by_hosts->predicted() < copies_bound(problem, sizes.front()))
    try_hosts();
  for (bool few_microbatches : {true, false})
    for (int size : sizes) {
      if (!few_microbatches && !all.empty()) break;
      if (refusal && problem.is_over()) break;
      if (!all.empty() && copies_bound(problem, size) >= known()) continue;
      if (auto copied =
              plan_in_copies(problem, size, few_microbatches, turns, refusal))
        all.push_back(*std::move(copied));
    }
  if (by_hosts) try_hosts();
  if (devices <= kMaxWholeDevices || (all.empty() && !refusal)) {
    if (Result<Planned> found =
            search_from(problem, starts.plans, starts.stopped,
                        within_budget(kWhole, problem, turns)))
      all.push_back(*std::move(found));
  }
  all.insert(all.end(), starts.plans.begin(), starts.plans.end());
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
    const bool in_copies =
        problem.cluster->num_devices() > kMaxWholeDevices &&
        problem.estimate_copies &&
        !equal_groups(*problem.cluster, kMaxGroupDevices).empty();
    AutoStarts starts;
    if (!in_copies) starts = ask(other_planners(), problem, num_turns(problem));
    Problem without_hint = problem;
    without_hint.estimator_for = nullptr;
    Result<Planned> best = best_of_starts(without_hint, starts);
    if (best || !starts.refusal || problem.stages > 0) return best;
    return error_of(*starts.refusal, problem);
  }
};

}  // namespace

Result<Planned> best_plan(const Problem& problem,
                          const std::vector<Planned>& starts) {
  return best_of_starts(problem, {starts, {}, {}});
}

std::unique_ptr<Planner> auto_planner() {
  return std::make_unique<AutoPlanner>();
}

}  // namespace pipewright
