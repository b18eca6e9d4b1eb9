// The best of all planners, and better. Every other planner is a start, and so
// is every even division of the devices into stages and replicas, and every
// pair of stages; the best of them are tried under every schedule, with and
// without recompute; the best of those are then improved on the simulator
// itself, one change at a time (auto_moves.h). Never worse than any single
// planner that has answered in time, because a start that cannot be improved
// stays as it is. The method is ours.
//
// Where hosts are equal, a plan for some of them is copied to the others
// (copies.h): beyond 64 devices that is all that is tried, so that a thousand
// devices take no longer than a few, and a planner that looks at all of them
// may do better.

#include "pipewright/planners/auto/auto_planner.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/planners/auto/auto_search.h"
#include "pipewright/planners/auto/auto_shapes.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/copies.h"
#include "pipewright/planners/list.h"
#include "pipewright/planners/parallel.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

constexpr int kMostSingly = 64;   // devices that are planned one by one
constexpr int kMostOfGroup = 16;  // devices of a group that is copied
constexpr int kManyLayers = 100;

// How much is searched.
struct Effort {
  double actions;           // simulated, in all
  std::size_t rescheduled;  // pipelines tried by all schedules
  std::size_t improved;
};
// A second or two on one core, and some tenths of one.
constexpr Effort kWhole{2e6, 4, 4};
constexpr Effort kGroup{5e4, 1, 2};

constexpr std::size_t kMostOfAll = 3000;  // pipelines: tried without exception
constexpr double kPlannersShare = 0.6;    // of the budget

// A group of a large cluster does without those that may take long, and those
// that even divisions stand for; with many layers also without those whose
// tables grow with the square of their number and more.
std::set<std::string> left_out(const Problem& problem) {
  std::set<std::string> names = {
      "bi-partition", "exact",      "spp",   "dapple",   "bapipe",
      "uniform",      "torchgpipe", "gpipe", "balanced", "data-parallel"};
  if (problem.profile->num_layers() > kManyLayers)
    names.insert({"piper", "pipedream"});
  return names;
}

std::function<bool()> until(const Problem& problem, double share) {
  if (problem.budget <= Seconds(0)) return problem.is_over_;
  const auto end =
      std::chrono::steady_clock::now() +
      std::chrono::duration<double>(problem.budget.value() * share);
  return [outer = problem.is_over_, end] {
    return std::chrono::steady_clock::now() > end || (outer && outer());
  };
}

// One stage a device, as even as can be, asks least of a device, as a rule:
// what is missing then is what tells most.
constexpr const char* kNeedsLeast = "balanced";

struct Refusal {
  std::string planner;
  Error error;
};

// Every other planner's answer, in the order of planners().
struct Asked {
  std::vector<Planned> plans;  // those that fit
  std::optional<Refusal> refusal;
};

Asked ask_planners(const Problem& problem,
                   const std::set<std::string>& without) {
  Problem asked = problem;
  asked.is_over_ = until(problem, kPlannersShare);
  asked.estimator_for = nullptr;  // what would help is asked for once
  asked.any_planner = true;
  std::vector<const Planner*> chosen;
  for (const auto& planner : planners())
    if (planner->name() != "auto" && !without.contains(planner->name()))
      chosen.push_back(planner.get());
  std::vector<std::optional<Result<Planned>>> answers(chosen.size());
  in_parallel(chosen.size(), problem.threads,
              [&](std::size_t i) { answers[i] = chosen[i]->plan(asked); });
  Asked all;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Result<Planned>& answer = *answers[i];
    const std::string name = chosen[i]->name();
    if (answer && answer->estimate.fits) {
      if (problem.has_asked_stages(answer->plan)) all.plans.push_back(*answer);
    } else if (!answer && (!all.refusal || name == kNeedsLeast))
      all.refusal = {name, answer.error()};
  }
  return all;
}

Error refused(Refusal refusal, const Problem& problem) {
  if (refusal.planner == kNeedsLeast)
    refusal.error.hint = remedy(problem, "auto");
  return refusal.error;
}

Error nothing_found(const Problem& problem) {
  if (problem.stages > 0)
    return bad_configuration("no plan of " + std::to_string(problem.stages) +
                                 " stages was found that fits",
                             "ask for other --stages, or for none");
  return bad_configuration("no plan fits", remedy(problem, "auto"));
}

std::string improvement_text(const AutoPlan& best, Seconds start) {
  const double gain = 1 - best.planned.estimate.step / start;
  return gain > 0
             ? "It began as a plan of " + best.origin +
                   "; changes on the simulator made it " + to_text(100 * gain) +
                   " % faster than the best single planner's."
             : "It is the plan of " + best.origin +
                   ", which no single change made faster.";
}

// The best of a problem's starts, improved.
Result<Planned> searched(const Problem& problem,
                         const std::vector<Planned>& starts,
                         const Effort& effort) {
  PIPEWRIGHT_TRY(const AutoCosts costs, AutoCosts::create(problem));
  AutoSearch search(costs, effort.actions);
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
  const std::vector<Pipeline> every = every_pipeline(costs, kMostOfAll);
  const bool all = !every.empty() && search.search_all(every, "auto");
  search.reschedule(effort.rescheduled);
  search.improve(effort.improved);
  if (search.is_empty() && search.was_cut_short())
    return bad_configuration("time was up before any plan was found",
                             "more than --budget " +
                                 to_text(problem.budget.value()) +
                                 " would help");
  if (search.is_empty()) return bad_configuration("nothing was found");
  Planned best = search.best().planned;
  if (fastest == Seconds::max()) fastest = best.estimate.step;
  best.why = improvement_text(search.best(), fastest);
  if (all)
    notes.push_back("the best of all " + with_thousands(int(every.size())) +
                    " pipelines of runs of layers, replicas and schedules of "
                    "one stage a device, or better: each was simulated or "
                    "keeps a device busy for longer");
  notes.push_back(with_thousands(search.num_scored()) +
                  " more pipelines were simulated" +
                  (search.was_cut_short()
                       ? "; the budget ended the search, another run may find "
                         "another plan"
                       : ""));
  best.notes = std::move(notes);
  return best;
}

// A problem for one of many equal groups of devices.
struct GroupProblem {
  Cluster cluster;
  Problem problem;
};

std::optional<GroupProblem> group_problem(const Problem& whole, int size,
                                          bool few) {
  const int copies = whole.cluster->num_devices() / size;
  if (whole.minibatch % copies != 0) return {};
  Result<Cluster> cluster = first_devices(*whole.cluster, size);
  if (!cluster) return {};
  GroupProblem made{*std::move(cluster), whole};
  Problem& problem = made.problem;
  problem.minibatch /= copies;
  problem.microbatches.clear();
  // Many more microbatches than stages fill the pipeline no better; only where
  // memory is short are they worth their time.
  for (int microbatch : whole.microbatches)
    if (microbatch % copies == 0 &&
        (!few || whole.minibatch / microbatch <= std::max(8, 4 * size)))
      problem.microbatches.push_back(microbatch / copies);
  if (problem.microbatches.empty()) return {};
  problem.estimate = [&whole, copies](const Plan& plan) {
    return whole.estimate_copies(plan, copies);
  };
  problem.estimate_copies = nullptr;
  return made;
}

std::optional<Planned> planned_in_copies(const Problem& whole, int size,
                                         bool few,
                                         std::optional<Refusal>& refusal) {
  std::optional<GroupProblem> group = group_problem(whole, size, few);
  if (!group) return {};
  group->problem.cluster = &group->cluster;
  const Asked asked =
      ask_planners(group->problem, whole.cluster->num_devices() > kMostSingly
                                       ? left_out(whole)
                                       : std::set<std::string>());
  Result<Planned> best = searched(group->problem, asked.plans, kGroup);
  if (!best && whole.is_over()) {
    refusal = Refusal{"auto", best.error()};
    return {};
  }
  if (!best) {
    group->problem.any_planner = true;
    const auto nearest =
        find_planner(kNeedsLeast).value()->plan(group->problem);
    refusal = nearest ? Refusal{"auto", best.error()}
                      : Refusal{kNeedsLeast, nearest.error()};
    return {};
  }
  const int copies = whole.cluster->num_devices() / size;
  Result<Plan> plan = copies_of(best->plan, copies, size);
  if (!plan) return {};
  std::vector<Bytes> memory(plan->devices.size());
  for (const Stage& stage : best->plan.stages) {
    const std::size_t count = stage.workers.size();
    const std::size_t first = stage.workers.front().index();
    for (std::size_t i = 0; i < count * static_cast<std::size_t>(copies); ++i)
      memory[first * static_cast<std::size_t>(copies) + i] =
          best->estimate.memory[first + i % count];
  }
  best->plan = *std::move(plan);
  best->estimate.memory = std::move(memory);
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
  if (problem.estimate_copies && devices > kMostOfGroup)
    sizes = equal_groups(*problem.cluster, kMostOfGroup);
  for (bool few : {true, false})
    for (int size : sizes) {
      if (!few && !all.empty()) break;
      if (refusal && problem.is_over()) break;
      if (auto copied = planned_in_copies(problem, size, few, refusal))
        all.push_back(*std::move(copied));
    }
  if (devices <= kMostSingly || (all.empty() && !refusal)) {
    if (Result<Planned> found = searched(problem, starts, kWhole))
      all.push_back(*std::move(found));
  }
  all.insert(all.end(), starts.begin(), starts.end());
  if (all.empty())
    return refusal ? refused(*refusal, problem) : nothing_found(problem);
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
    return "the best of all planners and schedules, improved on the simulator";
  }
  std::string source() const override { return "ours"; }

  Result<Planned> plan(const Problem& problem) const override {
    const bool in_copies =
        problem.cluster->num_devices() > kMostSingly &&
        problem.estimate_copies &&
        !equal_groups(*problem.cluster, kMostOfGroup).empty();
    Asked asked;
    if (!in_copies) asked = ask_planners(problem, {});
    Problem searched = problem;
    searched.estimator_for = nullptr;  // as above
    Result<Planned> best = best_plan(searched, asked.plans);
    if (best || !asked.refusal || problem.stages > 0) return best;
    return refused(*asked.refusal, problem);
  }
};

}  // namespace

std::unique_ptr<Planner> auto_planner() {
  return std::make_unique<AutoPlanner>();
}

}  // namespace pipewright
