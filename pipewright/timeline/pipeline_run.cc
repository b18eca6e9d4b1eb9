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
  const Span *first = nullptr, *last = nullptr;  // updates of one stage
  for (const Span& span : timeline.spans.front()) {
    if (span.kind != ActionKind::Step) continue;
    if (!first) first = &span;
    if (span.stage == first->stage) last = &span;
  }
  if (first == last) return timeline.step_seconds;
  return (last->end - first->end) / (last->version - first->version);
}

}  // namespace pipewright
