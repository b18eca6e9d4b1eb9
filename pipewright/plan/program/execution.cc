#include "pipewright/plan/program/execution.h"

#include <algorithm>
#include <string>
#include <utility>

#include "pipewright/base/check.h"

namespace pipewright {

std::vector<ReductionId> sums_read(const Reduction& norm, WorkerId worker,
                                   const Program& program) {
  std::vector<ReductionId> sums;
  for (const ReductionId sum : norm.after)
    if (takes_part(worker, program.reduction(sum))) sums.push_back(sum);
  return sums;
}

ExecutionState::ExecutionState(const Program& program, int repetitions,
                               Messages messages)
    : program_(program),
      repetitions_(repetitions),
      messages_(std::move(messages)),
      channels_(messages_.num_channels) {
  PIPEWRIGHT_CHECK(repetitions >= 0,
                   "a run of " + std::to_string(minibatches()) +
                       " minibatches of a program that needs " +
                       std::to_string(program.minibatches_outside));
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    Position at{ActionCursor(program, WorkerId(w), repetitions), {}};
    if (!at.cursor.at_end()) at.next = at.cursor.action();
    workers_.push_back(at);
  }
  for (const Reduction& reduction : program.reductions)
    contributions_.emplace_back(reduction.workers.size());
}

bool ExecutionState::is_finished() const {
  return std::all_of(
      workers_.begin(), workers_.end(),
      [](const Position& worker) { return worker.cursor.at_end(); });
}

Action ExecutionState::after_next(WorkerId worker) const {
  ActionCursor after = cursor(worker);
  after.advance();
  PIPEWRIGHT_CHECK(!after.at_end(), "an action is joined with nothing");
  return after.action();
}

bool ExecutionState::is_there(const Dependency& dependency) const {
  if (dependency.is_message()) {
    const std::int64_t number =
        messages_.number(dependency.transfer, dependency.key);
    const Channel& channel = channels_[channel_of(dependency.transfer)];
    return number >= 0 && number < channel.sent && number < channel.posted;
  }
  for (const int minibatches : contributions_[dependency.reduction.index()])
    if (minibatches <= dependency.key) return false;
  return true;
}

std::optional<Dependency> ExecutionState::missing(WorkerId worker) const {
  std::optional<Dependency> found;
  const auto is_not_missing = [&](const Dependency& dependency) {
    if (!is_there(dependency)) found = dependency;
    return !found;
  };
  if (all_dependencies(program_, worker, next(worker), is_not_missing) &&
      next(worker).joined)
    all_dependencies(program_, worker, after_next(worker), is_not_missing);
  return found;
}

WorkerId ExecutionState::provider(WorkerId worker,
                                  const Dependency& missing) const {
  if (missing.is_message()) {
    const std::int64_t number = messages_.number(missing.transfer, missing.key);
    const bool is_posted =
        number < channels_[channel_of(missing.transfer)].posted;
    return is_posted ? program_.transfer(missing.transfer).from : worker;
  }
  const std::size_t r = missing.reduction.index();
  const auto behind =
      std::find_if(contributions_[r].begin(), contributions_[r].end(),
                   [&](int minibatches) { return minibatches <= missing.key; });
  PIPEWRIGHT_CHECK(behind != contributions_[r].end(), "it is not missing");
  return program_.reductions[r].workers[behind - contributions_[r].begin()];
}

std::size_t ExecutionState::place(WorkerId worker,
                                  ReductionId reduction) const {
  const auto& workers = program_.reduction(reduction).workers;
  const auto found = std::find(workers.begin(), workers.end(), worker);
  return found - workers.begin();
}

void ExecutionState::perform(WorkerId worker) {
  Position& at = workers_[worker.index()];
  switch (at.next.kind) {
    case ActionKind::Send:
      ++channels_[channel_of(at.next.transfer)].sent;
      break;
    case ActionKind::Receive:
      ++channels_[channel_of(at.next.transfer)].posted;
      break;
    case ActionKind::Reduce:
      ++contributions_[at.next.reduction.index()]
                      [place(worker, at.next.reduction)];
      break;
    default:  // what compute and Step make is the worker's own until it is sent
      break;
  }
  at.cursor.advance();
  if (!at.cursor.at_end()) at.next = at.cursor.action();
}

}  // namespace pipewright
