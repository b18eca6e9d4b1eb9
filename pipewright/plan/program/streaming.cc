#include "pipewright/plan/program/streaming.h"

namespace pipewright {
namespace {

bool makes(const Action& action, const Transfer& transfer) {
  switch (action.kind) {
    case ActionKind::Forward:
      return !transfer.again && (transfer.kind == TransferKind::Activation ||
                                 transfer.kind == TransferKind::Saved);
    case ActionKind::Recompute:
      return transfer.again;
    case ActionKind::Backward:
    case ActionKind::BackwardInput:
      return transfer.kind == TransferKind::Gradient;
    default:
      return false;
  }
}

}  // namespace

bool may_stream(const Program& program, std::span<const Action> actions,
                std::size_t send) {
  const Transfer& transfer = program.transfer(actions[send].transfer);
  bool seen = false;  // a compute action; those before it must be joined
  for (std::size_t i = send; i-- > 0;) {
    const Action& action = actions[i];
    if (action.kind == ActionKind::Send || action.kind == ActionKind::Receive)
      continue;
    if (!is_compute(action.kind) || (seen && !action.joined)) return false;
    if (action.stage == transfer.made_by &&
        action.microbatch == actions[send].microbatch &&
        makes(action, transfer))
      return true;
    seen = true;
  }
  return false;
}

}  // namespace pipewright
