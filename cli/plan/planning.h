// Runs planners for `plan` and `compare`, and describes their plans.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/problem.h"
#include "cli/plan/watch.h"
#include "pipewright/base/json.h"

namespace pipewright::cli {

// One planner's result for one method.
struct Candidate {
  std::string planner;
  Method method = Method::Sync;
  std::optional<Planned> planned;
  std::string refusal;  // why there is no plan
  Seconds planning;
  bool was_cut_short = false;  // with more time the plan may differ
};

// One planner on a problem. A planner of AllPlanners begins with `starts`,
// where they are given.
Candidate candidate_of(const Planner& planner, const Problem& problem,
                       const std::vector<Planned>* starts = nullptr);
// One planner for a method, within the time limit (0: the problem's budget).
Candidate candidate_of(const Planner& planner, const LoadedProblem& loaded,
                       Method method, Watch& watch, Seconds limit = Seconds(0));

// The best plan of auto for a method, where plans of other methods are known:
// the fastest of them that fits with this method counts as well. So there is an
// answer early, and nothing is estimated beyond the time limit.
Candidate best_candidate(const LoadedProblem& loaded, Method method,
                         Watch& watch, Seconds limit,
                         const std::vector<Candidate>& known);

// Runs every planner, or the one named, for a method; several run in parallel
// and share the time limit (0: the problem's budget). Fails with
// BadConfiguration for an unknown name.
Result<std::vector<Candidate>> candidates(const LoadedProblem& loaded,
                                          const std::string& planner,
                                          Method method, Watch& watch,
                                          Seconds limit = Seconds(0));
// Candidates with a plan first, the fastest first; ties as in planners().
void sort_by_step(std::vector<Candidate>& candidates);

// Names of methods, or "all". Fails with BadConfiguration.
Result<std::vector<Method>> parse_methods(
    const std::vector<std::string>& names);

// The stages before their gradients were put into buckets.
std::vector<Stage> whole_stages(const Plan& plan);
// Of the cluster, ascending: those that no worker is on.
std::vector<DeviceId> unused_devices(const Plan& plan, const Cluster& cluster);
Bytes largest_memory(const Planned& planned);
double gap(const Planned& planned);  // 0.041: 4.1 % above the lower bound
// "at most 4.1 % slower than the best possible plan (lower bound 179 ms)"; ""
// without a bound.
std::string gap_text(const Planned& planned);
// A line about a plan whose cuts are between groups of layers, or "".
std::string layer_groups_text(const Candidate& candidate,
                              const Profile& profile);
std::string layers_text(const std::vector<LayerId>& layers,
                        const Profile& profile);  // "conv1 .. fc6 (38)"
Json to_json(const Candidate& candidate, const LoadedProblem& loaded);

}  // namespace pipewright::cli
