#include "pipewright/plan/validation/program_run.h"

#include <algorithm>

#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/program_fault.h"
#include "pipewright/plan/program/program_messages.h"
#include "pipewright/plan/validation/operation_progress.h"
#include "pipewright/plan/validation/version_ledger.h"

namespace pipewright {
namespace {

// Messages of one pair of workers and one kind.
struct Channel {
  std::int64_t sent = 0, received = 0;
};

class Run {
 public:
  Run(const Program& program, int repetitions, RunFacts& facts)
      : program_(program),
        repetitions_(repetitions),
        minibatches_(program.minibatches_outside + repetitions),
        microbatches_(minibatches_ * program.num_microbatches),
        facts_(facts),
        versions_(program) {}

  std::optional<Error> fault();

 private:
  struct Wait {
    WorkerId on;       // who must act before this worker can go on
    std::string what;  // empty: nothing to wait for
  };

  void prepare();
  void count_gradients();
  std::optional<Error> step_through(WorkerId worker);
  Wait blocked_by(WorkerId worker, const Action& action);
  Wait blocked_by_message(WorkerId worker, TransferId transfer,
                          std::int32_t key);
  Wait blocked_by_reduction(ReductionId reduction, const Action& action);
  Wait blocked_by_sums(WorkerId worker, const Action& action);
  using Fault = std::optional<Error>;
  Fault execute(WorkerId worker, const Action& action);
  Fault compute(WorkerId worker, const Action& action);
  Fault step(WorkerId worker, const Action& action);
  Fault reduce(WorkerId worker, const Action& action);
  Fault completeness();
  Error deadlock();
  Error fail(WorkerId worker, const std::string& message) {
    return program_fault(program_, repetitions_,
                         {{worker, cursors_[worker.index()].position()}},
                         message);
  }

  int operation(WorkerId worker, StageId stage) const {
    return program_.operation_of[worker.index() * static_cast<std::size_t>(
                                                      program_.num_stages) +
                                 stage.index()];
  }
  std::uint8_t& done(int operation, std::int32_t microbatch) {
    return done_[static_cast<std::size_t>(operation) *
                     static_cast<std::size_t>(microbatches_) +
                 static_cast<std::size_t>(microbatch)];
  }
  int& gradients_due(int operation, int minibatch) {
    return due_[static_cast<std::size_t>(operation) *
                    static_cast<std::size_t>(minibatches_) +
                static_cast<std::size_t>(minibatch)];
  }

  const Program& program_;
  int repetitions_, minibatches_;
  std::int32_t microbatches_;
  RunFacts& facts_;
  std::vector<ActionCursor> cursors_;
  std::vector<Channel> channels_;
  Messages messages_;
  std::vector<std::uint8_t> done_;  // per operation and microbatch
  std::vector<int> due_;            // per operation and minibatch
  std::vector<int> steps_;          // per operation
  std::vector<int> in_flight_;      // per operation
  VersionLedger versions_;
  std::vector<std::vector<int>> reduced_;  // per reduction and worker: so often
};

void Run::prepare() {
  const std::size_t num_operations = program_.operations.size();
  for (std::size_t w = 0; w < program_.workers.size(); ++w)
    cursors_.emplace_back(program_, WorkerId(w), repetitions_);
  done_.assign(num_operations * static_cast<std::size_t>(microbatches_), 0);
  due_.assign(num_operations * static_cast<std::size_t>(minibatches_), 0);
  steps_.assign(num_operations, 0);
  in_flight_.assign(num_operations, 0);
  facts_.peak_in_flight.assign(static_cast<std::size_t>(program_.num_stages),
                               0);
  for (const Reduction& reduction : program_.reductions)
    reduced_.emplace_back(reduction.workers.size());
}

// Only once every microbatch is known to be inside the run.
void Run::count_gradients() {
  for (std::size_t w = 0; w < cursors_.size(); ++w)
    for (ActionCursor at = cursors_[w]; !at.at_end(); at.advance()) {
      const Action action = at.action();
      ++facts_.num_actions;
      if (is_compute(action.kind) && (bits(action.kind) & kWeight))
        ++gradients_due(operation(WorkerId(w), action.stage),
                        action.microbatch / program_.num_microbatches);
    }
}

Run::Wait Run::blocked_by_message(WorkerId worker, TransferId id,
                                  std::int32_t key) {
  const Transfer& transfer = program_.transfers[id.index()];
  const std::int64_t number = messages_.number(id, key);
  const Channel& channel =
      channels_[static_cast<std::size_t>(messages_.channel_of[id.index()])];
  const std::string name =
      "transfer " + std::to_string(id.value) + " of " +
      (transfer.is_keyed_by_version() ? "version " : "microbatch ") +
      std::to_string(key) + " from worker " +
      std::to_string(transfer.from.value);
  if (number < 0) return {transfer.from, name + ", which is never sent"};
  if (channel.received <= number)
    return {worker, name + ", whose receive it has not posted"};
  if (channel.sent <= number) return {transfer.from, name};
  return {};
}

Run::Wait Run::blocked_by(WorkerId worker, const Action& action) {
  if (action.kind == ActionKind::Reduce) return blocked_by_sums(worker, action);
  if (!is_compute(action.kind) && action.kind != ActionKind::Step) return {};
  const ReadSet& set = program_.reads(action);
  for (TransferId id : set.transfers) {
    const Transfer& transfer = program_.transfers[id.index()];
    std::int32_t key = key_read(transfer, set, action);
    if (transfer.is_keyed_by_version()) {
      if (key <= 0) continue;
      key = std::min(key, minibatches_);
    }
    // Most waits are over: two comparisons before any text is made.
    const Channel& channel =
        channels_[static_cast<std::size_t>(messages_.channel_of[id.index()])];
    const std::int64_t number = messages_.number(id, key);
    if (number >= 0 && channel.received > number && channel.sent > number)
      continue;
    return blocked_by_message(worker, id, key);
  }
  for (ReductionId r : set.reductions)
    if (Wait wait = blocked_by_reduction(r, action); !wait.what.empty())
      return wait;
  return {};
}

Run::Wait Run::blocked_by_reduction(ReductionId r, const Action& action) {
  const std::size_t at = r.index();
  const int minibatch = action.microbatch / program_.num_microbatches;
  const auto& workers = program_.reductions[at].workers;
  for (std::size_t i = 0; i < workers.size(); ++i)
    if (reduced_[at][i] <= minibatch)
      return {workers[i], "worker " + std::to_string(workers[i].value) +
                              " in reduction " + std::to_string(r.value)};
  return {};
}

// A norm's Reduce waits for the sums that its worker takes part in.
Run::Wait Run::blocked_by_sums(WorkerId worker, const Action& action) {
  for (ReductionId r : program_.reduction(action.reduction).after) {
    const auto& workers = program_.reduction(r).workers;
    if (std::find(workers.begin(), workers.end(), worker) == workers.end())
      continue;
    if (Wait wait = blocked_by_reduction(r, action); !wait.what.empty())
      return wait;
  }
  return {};
}

std::optional<Error> Run::compute(WorkerId worker, const Action& action) {
  const int op = operation(worker, action.stage);
  const ReadSet& set = program_.reads(action);
  for (const LocalRead& read : set.local) {
    const int other = operation(worker, read.stage);
    const std::uint8_t wanted = read.kind == ActionKind::Backward
                                    ? static_cast<std::uint8_t>(kBackward)
                                    : bits(read.kind);
    if ((done(other, action.microbatch) & wanted) != wanted)
      return fail(worker, "it comes before " +
                              to_text(Action{read.kind, false, read.stage,
                                             action.microbatch})
                                  .substr(0, 12) +
                              " of the same worker, whose result it reads");
  }
  std::uint8_t& state = done(op, action.microbatch);
  if (state & bits(action.kind)) return fail(worker, "it is done twice");
  if (action.kind != ActionKind::Forward && !(state & kForward))
    return fail(worker, "its forward has not been done on this worker");
  state |= bits(action.kind);
  int& flying = in_flight_[static_cast<std::size_t>(op)];
  if (action.kind == ActionKind::Forward) ++flying;
  int& peak = facts_.peak_in_flight[action.stage.index()];
  peak = std::max(peak, flying);
  if (bits(action.kind) & kWeight) {
    --flying;
    const int minibatch = action.microbatch / program_.num_microbatches;
    --gradients_due(op, minibatch);
    if (steps_[static_cast<std::size_t>(op)] > minibatch)
      return fail(worker, "its gradient comes after the step of its minibatch");
  }
  if (auto why = versions_.read_fault(worker, action))
    return fail(worker, *why);
  return std::nullopt;
}

std::optional<Error> Run::step(WorkerId worker, const Action& action) {
  const int op = operation(worker, action.stage);
  int& steps = steps_[static_cast<std::size_t>(op)];
  if (action.version != steps + 1 || steps >= minibatches_)
    return fail(worker, "it makes version " + std::to_string(action.version) +
                            " of weights at version " + std::to_string(steps));
  if (gradients_due(op, steps) != 0)
    return fail(worker, std::to_string(gradients_due(op, steps)) +
                            " gradients of its minibatch come after it");
  if (action.microbatch != steps * program_.num_microbatches)
    return fail(worker, "it names another minibatch than the one it ends");
  ++steps;
  versions_.step(worker, action);
  return std::nullopt;
}

std::optional<Error> Run::reduce(WorkerId worker, const Action& action) {
  const std::size_t at = action.reduction.index();
  const int minibatch = action.version - 1;
  if (minibatch < 0 || minibatch >= minibatches_)
    return fail(worker, "its version is outside the run");
  for (StageId stage : program_.reductions[at].stages) {
    const int op = operation(worker, stage);
    if (op >= 0 && gradients_due(op, minibatch) != 0)
      return fail(worker, "gradients of stage " + std::to_string(stage.value) +
                              " come after it");
  }
  const auto& workers = program_.reductions[at].workers;
  const auto i = std::find(workers.begin(), workers.end(), worker);
  int& count = reduced_[at][static_cast<std::size_t>(i - workers.begin())];
  if (count != minibatch) return fail(worker, "it is not the next one");
  ++count;
  return std::nullopt;
}

std::optional<Error> Run::execute(WorkerId worker, const Action& action) {
  if (is_compute(action.kind)) return compute(worker, action);
  if (action.kind == ActionKind::Step) return step(worker, action);
  if (action.kind == ActionKind::Reduce) return reduce(worker, action);
  const Transfer& transfer = program_.transfer(action.transfer);
  Channel& channel = channels_[static_cast<std::size_t>(
      messages_.channel_of[action.transfer.index()])];
  if (action.kind == ActionKind::Receive) {
    ++channel.received;
    if (transfer.is_keyed_by_version())
      versions_.receive(worker, transfer.group, action.version);
    return std::nullopt;
  }
  ++channel.sent;
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

std::optional<Error> Run::step_through(WorkerId worker) {
  ActionCursor& cursor = cursors_[worker.index()];
  while (!cursor.at_end()) {
    const Action action = cursor.action();
    if (!blocked_by(worker, action).what.empty()) return std::nullopt;
    if (action.joined) {
      // Both of a pair start together: the second may not wait for the first.
      ActionCursor next = cursor;
      next.advance();
      if (!next.at_end() && !blocked_by(worker, next.action()).what.empty())
        return std::nullopt;
    }
    if (auto error = execute(worker, action)) return error;
    cursor.advance();
  }
  return std::nullopt;
}

Error Run::deadlock() {
  // Every stuck worker waits for another one; following them leads to a cycle,
  // or to one that waits for itself or for a message that never comes.
  std::size_t start = 0;
  while (cursors_[start].at_end()) ++start;
  std::vector<int> seen(cursors_.size(), -1);
  std::vector<WorkerId> path;
  std::vector<std::string> lines;
  WorkerId worker(start);
  while (!cursors_[worker.index()].at_end() && seen[worker.index()] < 0) {
    seen[worker.index()] = static_cast<int>(path.size());
    path.push_back(worker);
    ActionCursor next = cursors_[worker.index()];
    const Action action = next.action();
    Wait wait = blocked_by(worker, action);
    if (wait.what.empty())
      next.advance(), wait = blocked_by(worker, next.action());
    lines.push_back("worker " + std::to_string(worker.value) + " at " +
                    to_text(action) + " waits for " + wait.what);
    worker = wait.on;
  }
  const bool cycle = !cursors_[worker.index()].at_end();
  const auto first =
      cycle ? static_cast<std::size_t>(seen[worker.index()]) : std::size_t{0};
  std::string message = cycle ? "deadlock:" : "it can never start:";
  std::vector<ProgramMark> marks;
  for (std::size_t i = first; i < path.size(); ++i) {
    message += "\n  " + lines[i];
    marks.push_back({path[i], cursors_[path[i].index()].position()});
  }
  return program_fault(program_, repetitions_, marks, message);
}

std::optional<Error> Run::completeness() {
  const auto microbatches = static_cast<std::size_t>(microbatches_);
  const auto fail_at_end = [&](const std::string& message) {
    return program_fault(program_, repetitions_, {}, message);
  };
  std::vector<int> holders(static_cast<std::size_t>(program_.num_stages));
  std::vector<int> times(holders.size() * microbatches);
  for (std::size_t o = 0; o < program_.operations.size(); ++o) {
    const Operation& operation = program_.operations[o];
    ++holders[operation.stage.index()];
    const std::string name = "stage " + std::to_string(operation.stage.value) +
                             " on worker " +
                             std::to_string(operation.worker.value);
    for (std::int32_t m = 0; m < microbatches_; ++m) {
      const std::uint8_t state = done(static_cast<int>(o), m);
      if (state == 0) continue;
      if (!(state & kBackward) || !(state & kWeight))
        return fail_at_end(name + " never finishes microbatch " +
                           std::to_string(m));
      ++times[operation.stage.index() * microbatches +
              static_cast<std::size_t>(m)];
    }
    if (steps_[o] != minibatches_)
      return fail_at_end(name + " steps " + std::to_string(steps_[o]) +
                         " times in " + std::to_string(minibatches_) +
                         " minibatches");
  }
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::size_t stage = i / microbatches;
    if (times[i] != 1 && times[i] != holders[stage])
      return fail_at_end(
          "stage " + std::to_string(stage) + " does microbatch " +
          std::to_string(i % microbatches) + " on " + std::to_string(times[i]) +
          " of its " + std::to_string(holders[stage]) + " workers");
  }
  return std::nullopt;
}

std::optional<Error> Run::fault() {
  prepare();
  if (auto error = match_messages(program_, repetitions_, messages_))
    return error;
  channels_.resize(static_cast<std::size_t>(messages_.num_channels));
  count_gradients();
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t w = 0; w < cursors_.size(); ++w) {
      const std::int64_t before = cursors_[w].position();
      if (auto error = step_through(WorkerId(w))) return error;
      moved = moved || cursors_[w].position() != before;
    }
  }
  for (const ActionCursor& cursor : cursors_)
    if (!cursor.at_end()) return deadlock();
  return completeness();
}

}  // namespace

std::optional<Error> run_fault(const Program& program, int repetitions,
                               RunFacts& facts) {
  return Run(program, repetitions, facts).fault();
}

}  // namespace pipewright
