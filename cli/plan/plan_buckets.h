// `plan --bucket`: gradients of replicas are summed in buckets while backward
// goes on (gradient_buckets.h), where the simulated step is shorter.

#pragma once

#include <string>

#include "cli/plan/problem.h"
#include "pipewright/planners/planner.h"

namespace pipewright::cli {

// "25MB". Fails with Usage.
Result<Bytes> parse_bucket(const std::string& text);

// Planners are then told how fast a plan is with buckets.
void estimate_buckets(LoadedProblem& loaded, Bytes bucket);

// The plan of a planner that was told so, in buckets if it is faster then.
// `estimate` knows nothing of buckets.
void cut_into_buckets(Planned& planned, const Profile& profile, Bytes bucket,
                      const Estimator& estimate);

}  // namespace pipewright::cli
