#include "pipewright/plan/lowering/worker_order.h"

#include <algorithm>
#include <set>

namespace pipewright {
namespace {

// Before the last action of `worker`, but not into the middle of a joined pair.
void insert_recompute(WorkerOrder& worker, bool inside_pair) {
  const std::ptrdiff_t behind = inside_pair ? 2 : 1;
  ComputeAction again = worker.order.back();
  again.kind = ComputeKind::Recompute;
  again.joined = false;
  const std::int32_t repetition = worker.repetition.back();
  worker.order.insert(worker.order.end() - behind, again);
  worker.repetition.insert(worker.repetition.end() - behind, repetition);
}

WorkerOrder with_recompute(const std::vector<ComputeAction>& order,
                           const std::vector<Stage>& stages, std::size_t fill,
                           std::size_t body, int repetitions) {
  WorkerOrder worker;
  std::set<std::pair<StageId, MicrobatchId>> recomputed;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const ComputeAction& action = order[k];
    std::int32_t repetition = -1;
    if (k >= fill && body > 0)
      repetition = static_cast<std::int32_t>((k - fill) / body);
    else if (k >= fill)
      repetition = repetitions;
    worker.order.push_back(action);
    worker.repetition.push_back(std::min(repetition, repetitions));
    if (action.kind == ComputeKind::Recompute)
      recomputed.insert({action.stage, action.microbatch});
    if (starts_backward(action.kind) &&
        stages[action.stage.index()].recompute &&
        !recomputed.count({action.stage, action.microbatch}))
      insert_recompute(worker, k > 0 && order[k - 1].joined);
  }
  worker.gaps.resize(worker.order.size() + 1);
  worker.version.reserve(worker.order.size());
  worker.read_set.reserve(worker.order.size());
  return worker;
}

}  // namespace

std::vector<WorkerOrder> worker_orders_of(const Plan& plan, int minibatches) {
  const Orders orders = plan.schedule.unrolled(minibatches);
  const Schedule::Sections& sections = plan.schedule.sections();
  std::vector<WorkerOrder> workers;
  for (std::size_t w = 0; w < orders.size(); ++w) {
    const std::size_t fill =
        sections.prologue.empty() ? 0 : sections.prologue[w].size();
    workers.push_back(
        with_recompute(orders[w], plan.stages, fill, sections.body[w].size(),
                       minibatches - sections.minibatches_outside));
  }
  return workers;
}

}  // namespace pipewright
