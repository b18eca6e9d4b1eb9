#include "pipewright/plan/validation/run_check.h"

#include <algorithm>
#include <string>
#include <utility>

#include "pipewright/plan/program/deadlock.h"
#include "pipewright/plan/program/execution.h"
#include "pipewright/plan/program/program_fault.h"
#include "pipewright/plan/validation/operation_progress.h"
#include "pipewright/plan/validation/version_ledger.h"

namespace pipewright {
namespace {

using Fault = std::optional<Error>;

// Looks at each action just before it is done, and at the end at all of them.
class RunCheck {
 public:
  explicit RunCheck(const ExecutionState& state);

  Fault action_fault(WorkerId worker, const Action& action);
  Fault completeness_fault();
  std::vector<int> take_peaks() { return std::move(peak_in_flight_); }

 private:
  void count_gradients();
  Fault compute_fault(WorkerId worker, const Action& action);
  Fault local_fault(WorkerId worker, const Action& action);
  Fault joined_fault(WorkerId worker, const Action& action);
  Fault step_fault(WorkerId worker, const Action& action);
  Fault reduce_fault(WorkerId worker, const Action& action);
  Fault send_fault(WorkerId worker, const Action& action);
  void receive(WorkerId worker, const Action& action);
  Fault operation_fault(OperationId id, std::vector<int>& times);
  Error fail(WorkerId worker, const std::string& message) const {
    return program_fault(program_, state_.repetitions(),
                         {{worker, state_.position(worker)}}, message);
  }
  Error fail_at_end(const std::string& message) const {
    return program_fault(program_, state_.repetitions(), {}, message);
  }

  OperationId operation(WorkerId worker, StageId stage) const {
    return program_.operation_id(worker, stage);
  }
  std::uint8_t& done(OperationId operation, MicrobatchId microbatch) {
    return done_[operation.index() * microbatches_ + microbatch.index()];
  }
  int& gradients_due(OperationId operation, int minibatch) {
    return due_[operation.index() * minibatches_ + minibatch];
  }

  const ExecutionState& state_;
  const Program& program_;
  const int minibatches_;
  const std::int32_t microbatches_;
  std::vector<std::uint8_t> done_;   // per operation and microbatch
  std::vector<int> due_;             // per operation and minibatch
  std::vector<int> steps_;           // per operation
  std::vector<int> in_flight_;       // per operation
  std::vector<int> peak_in_flight_;  // per stage
  VersionLedger versions_;
};

RunCheck::RunCheck(const ExecutionState& state)
    : state_(state),
      program_(state.program()),
      minibatches_(state.minibatches()),
      microbatches_(minibatches_ * program_.num_microbatches),
      done_(program_.operations.size() * microbatches_),
      due_(program_.operations.size() * minibatches_),
      steps_(program_.operations.size()),
      in_flight_(program_.operations.size()),
      peak_in_flight_(program_.num_stages),
      versions_(program_) {
  count_gradients();
}

void RunCheck::count_gradients() {
  for (std::size_t w = 0; w < program_.workers.size(); ++w)
    for (ActionCursor at(program_, WorkerId(w), state_.repetitions());
         !at.at_end(); at.advance()) {
      const Action action = at.action();
      if (is_compute(action.kind) && (bits(action.kind) & kWeight))
        ++gradients_due(operation(WorkerId(w), action.stage),
                        program_.minibatch_of(action.microbatch));
    }
}

// What it reads of its own worker has been made.
Fault RunCheck::local_fault(WorkerId worker, const Action& action) {
  for (const LocalRead& read : program_.reads(action).local) {
    const OperationId other = operation(worker, read.stage);
    const std::uint8_t wanted = read.kind == ActionKind::Backward
                                    ? static_cast<std::uint8_t>(kBackward)
                                    : bits(read.kind);
    if ((done(other, action.microbatch) & wanted) == wanted) continue;
    const Action made{read.kind, false, read.stage, action.microbatch};
    return fail(worker, "it comes before " + to_text(made).substr(0, 12) +
                            " of the same worker, whose result it reads");
  }
  return std::nullopt;
}

// Two that start together: the second does not read what the first makes.
Fault RunCheck::joined_fault(WorkerId worker, const Action& action) {
  if (!action.joined) return std::nullopt;
  const Action other = state_.after_next(worker);
  if (local_fault(worker, other))
    return fail(worker, "it is joined with " + to_text(other) +
                            ", which reads a result that is not there yet "
                            "when both start");
  return std::nullopt;
}

Fault RunCheck::compute_fault(WorkerId worker, const Action& action) {
  const OperationId op = operation(worker, action.stage);
  if (auto error = local_fault(worker, action)) return error;
  if (auto error = joined_fault(worker, action)) return error;
  std::uint8_t& state = done(op, action.microbatch);
  if (state & bits(action.kind)) return fail(worker, "it is done twice");
  if (action.kind != ActionKind::Forward && !(state & kForward))
    return fail(worker, "its forward has not been done on this worker");
  state |= bits(action.kind);
  int& in_flight = in_flight_[op.index()];
  if (action.kind == ActionKind::Forward) ++in_flight;
  int& peak = peak_in_flight_[action.stage.index()];
  peak = std::max(peak, in_flight);
  if (bits(action.kind) & kWeight) {
    --in_flight;
    const int minibatch = program_.minibatch_of(action.microbatch);
    --gradients_due(op, minibatch);
    if (steps_[op.index()] > minibatch)
      return fail(worker, "its gradient comes after the step of its minibatch");
  }
  if (auto why = versions_.read_fault(worker, action))
    return fail(worker, *why);
  return std::nullopt;
}

Fault RunCheck::step_fault(WorkerId worker, const Action& action) {
  const OperationId op = operation(worker, action.stage);
  int& steps = steps_[op.index()];
  if (action.version != steps + 1 || steps >= minibatches_)
    return fail(worker, "it makes version " + std::to_string(action.version) +
                            " of weights at version " + std::to_string(steps));
  if (gradients_due(op, steps) != 0)
    return fail(worker, std::to_string(gradients_due(op, steps)) +
                            " gradients of its minibatch come after it");
  if (action.microbatch != program_.first_microbatch(steps))
    return fail(worker, "it names another minibatch than the one it ends");
  ++steps;
  versions_.step(worker, action);
  return std::nullopt;
}

Fault RunCheck::reduce_fault(WorkerId worker, const Action& action) {
  const int minibatch = action.version - 1;
  if (minibatch < 0 || minibatch >= minibatches_)
    return fail(worker, "its version is outside the run");
  if (action.microbatch != program_.first_microbatch(minibatch))
    return fail(worker, "its microbatch is not the first of its minibatch");
  for (const StageId stage : program_.reduction(action.reduction).stages) {
    const OperationId op = operation(worker, stage);
    if (!op.is_none() && gradients_due(op, minibatch) != 0)
      return fail(worker, "gradients of stage " + std::to_string(stage.value) +
                              " come after it");
  }
  const int done = state_.num_contributions(worker, action.reduction);
  if (done != minibatch)
    return fail(worker,
                "the worker's next contribution to it is that of "
                "minibatch " +
                    std::to_string(done));
  return std::nullopt;
}

Fault RunCheck::send_fault(WorkerId worker, const Action& action) {
  const Transfer& transfer = program_.transfer(action.transfer);
  if (transfer.is_keyed_by_version()) {
    if (versions_.newest(worker, transfer.group) != action.version)
      return fail(worker, "its weights are at another version");
    return std::nullopt;
  }
  std::uint8_t makes = transfer.again ? kRecompute : kForward;
  if (transfer.kind == TransferKind::Gradient) makes = kBackward;
  if (!(done(operation(worker, transfer.made_by), action.microbatch) & makes))
    return fail(worker, "it is sent before it is made");
  return std::nullopt;
}

void RunCheck::receive(WorkerId worker, const Action& action) {
  const Transfer& transfer = program_.transfer(action.transfer);
  if (transfer.is_keyed_by_version())
    versions_.receive(worker, transfer.group, action.version);
}

Fault RunCheck::action_fault(WorkerId worker, const Action& action) {
  if (is_compute(action.kind)) return compute_fault(worker, action);
  if (action.kind == ActionKind::Step) return step_fault(worker, action);
  if (action.kind == ActionKind::Reduce) return reduce_fault(worker, action);
  if (action.kind == ActionKind::Send) return send_fault(worker, action);
  receive(worker, action);
  return std::nullopt;
}

// Adds to `times`, per stage and microbatch, what the operation has done.
Fault RunCheck::operation_fault(OperationId id, std::vector<int>& times) {
  const Operation& operation = program_.operations[id.index()];
  const int steps = steps_[id.index()];
  const std::string name = "stage " + std::to_string(operation.stage.value) +
                           " on worker " +
                           std::to_string(operation.worker.value);
  for (MicrobatchId m(0); m.value < microbatches_; ++m) {
    const std::uint8_t state = done(id, m);
    if (state == 0) continue;
    if (!(state & kBackward) || !(state & kWeight))
      return fail_at_end(name + " never finishes microbatch " +
                         std::to_string(m.value));
    ++times[operation.stage.index() * microbatches_ + m.index()];
  }
  if (steps != minibatches_)
    return fail_at_end(name + " steps " + std::to_string(steps) + " times in " +
                       std::to_string(minibatches_) + " minibatches");
  return std::nullopt;
}

Fault RunCheck::completeness_fault() {
  std::vector<int> holders(program_.num_stages);
  std::vector<int> times(holders.size() * microbatches_);
  for (std::size_t o = 0; o < program_.operations.size(); ++o) {
    ++holders[program_.operations[o].stage.index()];
    if (auto error = operation_fault(OperationId(o), times)) return error;
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::size_t stage = i / microbatches_;
    if (times[i] != 1 && times[i] != holders[stage])
      return fail_at_end("stage " + std::to_string(stage) +
                         " does microbatch " +
                         std::to_string(i % microbatches_) + " on " +
                         std::to_string(times[i]) + " of its " +
                         std::to_string(holders[stage]) + " workers");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> run_fault(const Program& program, int repetitions,
                               std::vector<int>& peak_in_flight) {
  Messages messages;
  if (auto error = match_messages(program, repetitions, messages)) return error;
  ExecutionState state(program, repetitions, std::move(messages));
  RunCheck check(state);
  Fault fault;
  walk(state, [&](WorkerId worker, const Action& action) {
    fault = check.action_fault(worker, action);
    return !fault;
  });
  if (fault) return fault;
  if (!state.is_finished()) return deadlock(state);
  peak_in_flight = check.take_peaks();
  return check.completeness_fault();
}

}  // namespace pipewright
