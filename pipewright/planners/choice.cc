#include "pipewright/planners/choice.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/state_memory.h"

namespace pipewright {
namespace {

constexpr std::size_t kMaxNotes = 64;

bool has_recompute(const Pipeline& pipeline) {
  return std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                     [](const PipelineStage& s) { return s.recompute; });
}

}  // namespace

std::string replicas_text(const Plan& plan) {
  std::vector<std::string> counts;
  bool equal = true;
  for (const Stage& stage : plan.stages) {
    if (stage.bucket) continue;
    counts.push_back(std::to_string(stage.workers.size()));
    equal = equal && counts.back() == counts.front();
  }
  return equal ? std::to_string(counts.size()) + " x " + counts.front()
               : join(counts, "-");
}

std::string shape_text(const Plan& plan) {
  return plan.schedule_name + ", " + replicas_text(plan) + ", microbatch " +
         std::to_string(plan.microbatch);
}

void Choice::consider(const Pipeline& pipeline, Promise promise) {
  if (!states_exceed_memory(pipeline, problem_))
    try_out(pipeline, promise);
  else if (!too_large_)
    too_large_ = pipeline;
}

void Choice::try_out(const Pipeline& pipeline, const Promise& promise) {
  if (score(pipeline, promise) || has_recompute(pipeline)) return;
  Pipeline recomputed = pipeline;
  for (PipelineStage& stage : recomputed.stages) stage.recompute = true;
  score(recomputed, promise);
}

void Choice::refuse(const Error& error) {
  if (!error_) error_ = error;
}

// False if the pipeline does not fit the memory.
bool Choice::score(const Pipeline& pipeline, const Promise& promise) {
  Result<Planned> result = planned(pipeline, problem_, planner_);
  if (!result) {
    refuse(result.error());
    return true;
  }
  const bool fits = result->estimate.fits;
  if (notes_.size() < kMaxNotes)
    notes_.push_back(shape_text(result->plan) +
                     (has_recompute(pipeline) ? ", recompute" : "") + ": " +
                     to_text(result->estimate.step) +
                     (fits ? "" : ", does not fit"));
  if (!fits) {
    std::optional<Shortage>& smallest =
        has_recompute(pipeline) ? recomputed_ : plain_;
    const Shortage shortage = shortage_of(*result, problem_);
    if (!smallest || shortage.ratio < smallest->ratio) smallest = shortage;
    return false;
  }
  if (best_ && best_->estimate.step <= result->estimate.step) return true;
  if (promise.step > Seconds(0)) result->promised = promise.step;
  result->bottleneck = promise.bottleneck;
  best_ = *std::move(result);
  return true;
}

// `auto` reads the numbers of one planner only.
bool Choice::needs_numbers() const {
  return !problem_.any_planner || planner_ == least_memory_planner().name();
}

Error Choice::refusal() const {
  if (plain_ || recomputed_)
    return nothing_fits(problem_, planner_, plain_, recomputed_);
  if (error_) return *error_;
  if (too_large_) return bad_configuration("the weights alone do not fit");
  return bad_configuration(planner_ + " has nothing to try",
                           "give at least one microbatch size");
}

Result<Planned> Choice::best() && {
  if (!best_ && too_large_ && needs_numbers()) try_out(*too_large_, {});
  if (!best_) return refusal();
  best_->lower_bound = lower_bound(problem_);
  best_->notes = std::move(notes_);
  if (best_->bottleneck <= Seconds(0))
    best_->bottleneck = best_->promised / best_->plan.num_microbatches();
  return *std::move(best_);
}

Result<Planned> best_over_sizes(
    const Problem& problem, const std::string& planner,
    const std::function<Result<void>(const CostTable&, Choice&)>& visit) {
  Choice choice(problem, planner);
  for (int microbatch : problem.microbatches) {
    if (choice.is_over()) break;
    PIPEWRIGHT_TRY(
        const CostTable costs,
        CostTable::create(*problem.profile, *problem.cluster, microbatch));
    auto visited = visit(costs, choice);
    if (!visited && choice.has_plan()) break;
    if (!visited) return visited.error();
  }
  return std::move(choice).best();
}

}  // namespace pipewright
