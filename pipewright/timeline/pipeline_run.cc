#include "pipewright/timeline/pipeline_run.h"

#include <vector>

#include "pipewright/profile/analytic.h"

namespace pipewright {

std::vector<Stage> stages_at_once(const Plan& plan) {
  const auto is_plain = [](const Stage& stage, std::size_t worker) {
    return stage.workers == std::vector{WorkerId(worker)} &&
           stage.forward == stage.backward && !stage.recompute && !stage.bucket;
  };
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    if (!is_plain(plan.stages[s], s)) return {};
  return plan.stages;
}

bool has_short_actions(const Model& model, int microbatch, int workers) {
  constexpr double kShort = 2e9;  // operations of a microbatch in a stage
  double work = 0;
  for (int l = 0; l < model.num_layers(); ++l) {
    const LayerCost cost = layer_cost(model, LayerId(l));
    work += (cost.forward + cost.backward_input + cost.backward_weight).value();
  }
  return work * microbatch / workers < kShort;
}

Seconds step_period(const Timeline& timeline) {
  std::vector<Seconds> ends;
  for (const Span& span : timeline.spans.front())
    if (span.kind == ActionKind::Step) ends.push_back(span.end);
  if (ends.size() < 2) return timeline.step_seconds;
  return (ends.back() - ends.front()) / static_cast<double>(ends.size() - 1);
}

}  // namespace pipewright
