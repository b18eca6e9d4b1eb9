// Running planners for a command, and what is said of their plans.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/problem.h"
#include "cli/plan/watch.h"
#include "pipewright/base/json.h"

namespace pipewright::cli {

// One planner's answer for one method.
struct Candidate {
  std::string planner;
  Method method = Method::Sync;
  std::optional<Planned> planned;
  std::string refusal;  // why there is none
  Seconds planning;
};

// Every planner (or the one named) for a method, several at once. Fails with
// BadConfiguration for an unknown name.
Result<std::vector<Candidate>> candidates(const LoadedProblem& loaded,
                                          const std::string& planner,
                                          Method method, Watch& watch);
// Those with a plan first, fastest first; ties as in planners().
void rank(std::vector<Candidate>& candidates);

// "sync,2bw"; "all". Fails with BadConfiguration, the nearest name offered.
Result<std::vector<Method>> parse_methods(
    const std::vector<std::string>& names);

Bytes largest_memory(const Planned& planned);
double gap(const Planned& planned);  // 0.041: 4.1 % above the lower bound
// "within 4.1 % of the best possible, 179 ms"; "" where nothing is known.
std::string gap_text(const Planned& planned);
std::string layers_text(const std::vector<LayerId>& layers,
                        const Profile& profile);  // "conv1 .. fc6 (38)"
Json to_json(const Candidate& candidate, const LoadedProblem& loaded);

}  // namespace pipewright::cli
