// Keeps the best of the pipelines that a planner tries. Each is scored by the
// problem's estimator, with recompute if it does not fit without; the fastest
// that fits is the result. If none fits, the error says how much memory the one
// with the smallest need would need. Of pipelines whose weights alone are too
// large (state_memory.h) only the first is simulated, for that error.

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

  // What the planner's own cost model predicts: the slowest stage or link of
  // one microbatch, and the whole step; 0: as simulated.
  struct Promise {
    Seconds bottleneck, step;
  };
  void consider(const Pipeline& pipeline, Promise promise = {});
  // For pipelines that cannot exist; the first error is reported.
  void refuse(const Error& error);

  bool has_plan() const { return best_.has_value(); }
  // Whether the time limit is over and there is a plan.
  bool is_over() const { return has_plan() && problem_.is_over(); }
  // Fails with BadConfiguration: nothing was considered, or nothing fits.
  Result<Planned> best() &&;

 private:
  void try_out(const Pipeline& pipeline, const Promise& promise);
  bool score(const Pipeline& pipeline, const Promise& promise);
  bool needs_numbers() const;
  Error refusal() const;

  const Problem& problem_;
  std::string planner_;
  std::optional<Planned> best_;
  std::optional<Error> error_;
  std::optional<Pipeline> too_large_;  // the first that states_exceed_memory()
  std::optional<Shortage> plain_, recomputed_;  // the smallest of each
  std::vector<std::string> notes_;
};

// The best of what `visit` considers at each microbatch size, until the time
// limit. Fails as Choice::best() and `visit` do, and if the profile lacks
// costs.
Result<Planned> best_over_sizes(
    const Problem& problem, const std::string& planner,
    const std::function<Result<void>(const CostTable&, Choice&)>& visit);

// "1f1b, 3-1, microbatch 8", with the replicas of each stage.
std::string shape_text(const Plan& plan);
// "3-1", or "4 x 1" where all stages have the same number of replicas.
std::string replicas_text(const Plan& plan);

}  // namespace pipewright
