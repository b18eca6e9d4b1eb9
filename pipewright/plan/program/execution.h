// When an action of a program may start, and what it changes for other workers:
// the one definition of execution. It knows no clock, no bytes and no tensors.
//
// The validator, the memory bound, the send capacity of channels and the
// reference interpreter walk a program by this definition. The simulator and
// the workers have loops of their own, for speed; tests compare them with it.
//
// The rule
//   An action starts after the one before it on its worker, once all its
//   dependencies are there:
//     compute, Step     the messages and reductions of its ReadSet; version 0
//                       of weights is there from the start
//     Reduce of a norm  the sums of gradients that the norm is about, as far as
//                       its worker takes part in them
//     other actions     nothing
//   A joined action and the next one start together, once the dependencies of
//   both are there.
//
//   A message is there once it is sent and its receive is posted. Messages of
//   one channel are sent and received in one order. A reduction of a minibatch
//   is there once each of its workers has done its Reduce.
//
// What an action reads of its own worker (ReadSet::local) comes earlier in the
// worker's list or never: the validator checks that, nobody waits for it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/plan/program/program_messages.h"

namespace pipewright {

// What must be there before an action may start: a message of a transfer, or a
// reduction of a minibatch.
struct Dependency {
  TransferId transfer;    // none: it is a reduction
  ReductionId reduction;  // none: it is a message
  std::int32_t key = 0;   // of the message (Program::key), or the minibatch

  bool is_message() const { return !transfer.is_none(); }
  auto operator<=>(const Dependency&) const = default;
};

inline bool takes_part(WorkerId worker, const Reduction& reduction) {
  for (const WorkerId other : reduction.workers)
    if (other == worker) return true;
  return false;
}

// The sums of gradients that a worker's Reduce of a norm waits for and reads.
std::vector<ReductionId> sums_read(const Reduction& norm, WorkerId worker,
                                   const Program& program);

// Whether `holds` is true of every dependency of the action, which has absolute
// microbatches and versions. Asks no further after the first that it is not
// true of.
template <class Predicate>
bool all_dependencies(const Program& program, WorkerId worker,
                      const Action& action, Predicate holds) {
  const std::int32_t minibatch = program.minibatch_of(action.microbatch);
  if (action.kind == ActionKind::Reduce) {
    for (const ReductionId sum : program.reduction(action.reduction).after)
      if (takes_part(worker, program.reduction(sum)) &&
          !holds(Dependency{{}, sum, minibatch}))
        return false;
    return true;
  }
  if (!is_compute(action.kind) && action.kind != ActionKind::Step) return true;
  const ReadSet& set = program.reads(action);
  for (const TransferId id : set.transfers) {
    const Transfer& transfer = program.transfer(id);
    const std::int32_t key = key_read(transfer, set, action);
    if (transfer.is_keyed_by_version() && key <= 0) continue;
    if (!holds(Dependency{id, {}, key})) return false;
  }
  for (const ReductionId reduction : set.reductions)
    if (!holds(Dependency{{}, reduction, minibatch})) return false;
  return true;
}

// How far each worker of a run is, and what is there.
class ExecutionState {
 public:
  // At the start of a run with that many repetitions of the body. `messages`
  // are those of the run; the program must outlive the state.
  ExecutionState(const Program& program, int repetitions, Messages messages);

  const Program& program() const { return program_; }
  const Messages& messages() const { return messages_; }
  int repetitions() const { return repetitions_; }
  int minibatches() const {
    return program_.minibatches_outside + repetitions_;
  }
  std::size_t num_workers() const { return workers_.size(); }

  bool is_at_end(WorkerId worker) const { return cursor(worker).at_end(); }
  bool is_finished() const;  // all workers are at their ends
  // The action that the worker has yet to do, with absolute microbatch and
  // version, and its position in the worker's run.
  const Action& next(WorkerId worker) const {
    return workers_[worker.index()].next;
  }
  std::int64_t position(WorkerId worker) const {
    return cursor(worker).position();
  }
  // The action that follows next(), for a joined one.
  Action after_next(WorkerId worker) const;

  bool is_there(const Dependency& dependency) const;
  // The next action of a worker that is not at its end, together with the one
  // it is joined with.
  bool can_start(WorkerId worker) const {
    return are_there(worker, next(worker)) &&
           (!next(worker).joined || are_there(worker, after_next(worker)));
  }
  // A dependency that it lacks; none: it can start.
  std::optional<Dependency> missing(WorkerId worker) const;
  // Who has yet to act for a dependency that the worker lacks: the worker
  // itself if it has not posted the receive.
  WorkerId provider(WorkerId worker, const Dependency& missing) const;

  // Reduce actions of this reduction that the worker has done.
  int num_contributions(WorkerId worker, ReductionId reduction) const {
    return contributions_[reduction.index()][place(worker, reduction)];
  }

  // Does the worker's next action, which can start.
  void perform(WorkerId worker);

 private:
  struct Position {
    ActionCursor cursor;
    Action next;  // at the cursor
  };
  // Messages of one pair of workers and one kind.
  struct Channel {
    std::int64_t sent = 0, posted = 0;
  };

  const ActionCursor& cursor(WorkerId worker) const {
    return workers_[worker.index()].cursor;
  }
  bool are_there(WorkerId worker, const Action& action) const {
    return all_dependencies(
        program_, worker, action,
        [this](const Dependency& one) { return is_there(one); });
  }
  std::size_t channel_of(TransferId transfer) const {
    return messages_.channel_of[transfer.index()];
  }
  std::size_t place(WorkerId worker, ReductionId reduction) const;

  const Program& program_;
  const int repetitions_;
  const Messages messages_;
  std::vector<Position> workers_;
  std::vector<Channel> channels_;
  // Per reduction and place of the worker in it: minibatches it has done.
  std::vector<std::vector<int>> contributions_;
};

// Calls visit(worker, action) for every action that can be done, just before
// it is done: worker after worker, each as far as it gets, until nobody can go
// on or a visit returns false.
template <class Visit>
void walk(ExecutionState& state, Visit visit) {
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t w = 0; w < state.num_workers(); ++w)
      for (const WorkerId worker(w);
           !state.is_at_end(worker) && state.can_start(worker);
           has_moved = true) {
        if (!visit(worker, state.next(worker))) return;
        state.perform(worker);
      }
  }
}

}  // namespace pipewright
