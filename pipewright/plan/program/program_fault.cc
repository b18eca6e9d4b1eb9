#include "pipewright/plan/program/program_fault.h"

#include <algorithm>

#include "pipewright/plan/schedule/schedule_grid.h"

namespace pipewright {

Error program_fault(const Program& program, int repetitions,
                    const std::vector<ProgramMark>& marks,
                    const std::string& message) {
  Orders orders;
  std::vector<GridMark> grid;
  std::string where = "program";
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    const auto actions = unrolled(program, WorkerId(w),
                                  program.minibatches_outside + repetitions);
    std::vector<std::size_t>
        column;  // of each action: the compute action at or before
    std::vector<ComputeAction> order;
    for (const Action& action : actions) {
      if (is_compute(action.kind))
        order.push_back({action.stage, action.microbatch,
                         static_cast<ComputeKind>(action.kind), action.joined});
      column.push_back(order.empty() ? 0 : order.size() - 1);
    }
    for (const ProgramMark& mark : marks) {
      const auto at = static_cast<std::size_t>(mark.position);
      if (mark.worker != WorkerId(w) || at >= actions.size()) continue;
      grid.push_back({WorkerId(w), column[at]});
      if (where == "program")
        where = "worker " + std::to_string(w) + ", action " +
                std::to_string(at) + " (" + to_text(actions[at]) + ")";
    }
    orders.push_back(std::move(order));
  }
  return malformed(message + drawn(orders, grid), where);
}

}  // namespace pipewright
