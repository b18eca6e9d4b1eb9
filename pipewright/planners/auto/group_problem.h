// The problem of the first of several equal groups of devices (copies.h), whose
// plan is copied to the others. For auto.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pipewright/planners/planner.h"

namespace pipewright {

struct GroupProblem {
  EqualGroups groups;
  Cluster cluster;  // the first group
  Problem problem;  // of this cluster
};
// The problem points to the cluster, so that neither may be moved.
using GroupProblems = std::vector<std::unique_ptr<const GroupProblem>>;

// With `few_microbatches` only the larger microbatch sizes: many more
// microbatches than stages fill the pipeline no better, and are worth their
// time only where memory is short.
//
// One problem where the groups can have equally many samples. Otherwise one for
// each of a few microbatch sizes, the largest first: of as many samples as the
// largest group has then. None if there is no such size.
GroupProblems group_problems(const Problem& whole, const EqualGroups& groups,
                             bool few_microbatches);

// For plans whose replicas take turns, so that groups have whole microbatches;
// null if they cannot have equally many samples.
std::unique_ptr<const GroupProblem> rotating_group(const Problem& whole,
                                                   const EqualGroups& groups);

// The plan for all groups.
struct Copied {
  Planned planned;
  bool is_exact;  // false: estimated as if all groups had the most samples
};

// Of a single group it is the plan itself. None if the groups cannot have it.
std::optional<Copied> copied(Planned planned, const Problem& whole,
                             const EqualGroups& groups);

// With an exact estimate, if there is time for it; otherwise it says what the
// estimate is of.
Planned simulated(Copied copied, const Problem& whole);

}  // namespace pipewright
