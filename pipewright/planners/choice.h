// The best of the pipelines that a planner tries: each is scored by the
// problem's estimator, with recompute where it would not fit without, and the
// fastest that fits is the answer. If none fits, the refusal says how much
// memory the least greedy of them would need.

#pragma once

#include <functional>
#include <optional>
#include <string>

#include "pipewright/planners/cost_table.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/planner.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {

class Choice {
 public:
  Choice(const Problem& problem, std::string planner)
      : problem_(problem), planner_(std::move(planner)) {}

  // What the planner's own cost model says: the slowest stage or link of one
  // microbatch, and the whole step; 0 for "as simulated".
  struct Promise {
    Seconds bottleneck, step;
  };
  void consider(const Pipeline& pipeline, Promise promise = {});
  // A pipeline that could not be made.
  void refuse(const Error& error);

  bool has_plan() const { return best_.has_value(); }
  // Whether time is up and there is something to answer with.
  bool is_over() const { return has_plan() && problem_.is_over(); }
  // Fails with BadConfiguration: nothing was considered, or nothing fits.
  Result<Planned> best() &&;

 private:
  bool score(const Pipeline& pipeline, const Promise& promise);
  Error refusal() const;

  const Problem& problem_;
  std::string planner_;
  std::optional<Planned> best_;
  std::optional<Error> error_;
  std::optional<Shortage> plain_, recomputed_;  // the least of each
  std::vector<std::string> notes_;
};

// The best of what `visit` considers at each microbatch size, given the costs
// there, while there is time. Fails as Choice::best() does, if the profile
// lacks costs, and as `visit` does.
Result<Planned> best_over_sizes(
    const Problem& problem, const std::string& planner,
    const std::function<Result<void>(const CostTable&, Choice&)>& visit);

// "1f1b, 3-1, microbatch 8": stages by their replicas.
std::string shape_text(const Plan& plan);
// "3-1", or "4 x 1" where all stages have as many replicas.
std::string replicas_text(const Plan& plan);

}  // namespace pipewright
