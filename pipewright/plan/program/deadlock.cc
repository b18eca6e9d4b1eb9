#include "pipewright/plan/program/deadlock.h"

#include <string>

#include "pipewright/plan/program/program_fault.h"
#include "pipewright/plan/schedule/wait_chain.h"

namespace pipewright {
namespace {

std::string message_text(const ExecutionState& state, WorkerId worker,
                         const Dependency& missing) {
  const Transfer& transfer = state.program().transfer(missing.transfer);
  const std::string name =
      "transfer " + std::to_string(missing.transfer.value) + " of " +
      (transfer.is_keyed_by_version() ? "version " : "microbatch ") +
      std::to_string(missing.key) + " from worker " +
      std::to_string(transfer.from.value);
  if (state.messages().number(missing.transfer, missing.key) < 0)
    return name + ", which is never sent";
  const bool is_posted = state.provider(worker, missing) != worker;
  return is_posted ? name : name + ", whose receive it has not posted";
}

std::string sentence(const ExecutionState& state, WorkerId worker) {
  const Dependency missing = *state.missing(worker);
  const std::string who = "worker " + std::to_string(worker.value) + " at " +
                          to_text(state.next(worker)) + " waits for ";
  if (missing.is_message()) return who + message_text(state, worker, missing);
  return who + "worker " +
         std::to_string(state.provider(worker, missing).value) +
         " to contribute to reduction " +
         std::to_string(missing.reduction.value) + " of minibatch " +
         std::to_string(missing.key);
}

}  // namespace

Error deadlock(const ExecutionState& state) {
  WorkerId first(0);
  while (state.is_at_end(first)) ++first.value;
  const WaitChain chain = wait_chain(first, [&state](WorkerId worker) {
    return state.is_at_end(worker)
               ? WorkerId()
               : state.provider(worker, *state.missing(worker));
  });
  std::string message = chain.is_cycle ? "deadlock:" : "it can never start:";
  std::vector<ProgramMark> marks;
  for (const WorkerId worker : chain.workers) {
    message += "\n  " + sentence(state, worker);
    marks.push_back({worker, state.position(worker)});
  }
  return program_fault(state.program(), state.repetitions(), marks, message);
}

}  // namespace pipewright
