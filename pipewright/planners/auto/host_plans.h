// Plans with stages on whole hosts, or an order of their own inside each host,
// copied to all groups of a large cluster (host_stages.h). For auto.

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "pipewright/planners/auto/group_problem.h"
#include "pipewright/planners/auto/host_stages.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

// Pipelines for groups of several sizes.
class HostPlans {
 public:
  // The problem must outlive this object.
  explicit HostPlans(const Problem& whole);

  // The step of the best pipeline so far.
  Seconds predicted() const;

  // A plan with a shorter step than the one that is known.
  std::optional<Copied> best(Seconds known);

 private:
  // A group of hosts, and a pipeline for it.
  struct HostGroup {
    std::unique_ptr<const GroupProblem> group;
    std::unique_ptr<HostSearch> search;

    bool is_one_host() const { return group->cluster.num_hosts() == 1; }
    void improve() const;
    void improve_first() const;  // a little
  };

  void add(const EqualGroups& groups);
  void add_taking_turns();
  void improve(Seconds known);
  void keep_below(Seconds limit);
  void sort();

  const Problem& whole_;
  std::vector<HostGroup> groups_;  // the best first
};

}  // namespace pipewright
