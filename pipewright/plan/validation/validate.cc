#include "pipewright/plan/validation/validate.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "pipewright/plan/program/program_fault.h"
#include "pipewright/plan/validation/run_check.h"

namespace pipewright {
namespace {

template <class Id>
bool is_within(Id id, std::size_t size) {
  return !id.is_none() && id.index() < size;
}

// Indices of an action point at something that is this worker's.
std::optional<std::string> index_fault(const Program& program, WorkerId worker,
                                       const Action& action) {
  const bool stage_here = !action.stage.is_none() &&
                          action.stage.value < program.num_stages &&
                          program.operation(worker, action.stage);
  switch (action.kind) {
    case ActionKind::Send:
    case ActionKind::Receive: {
      if (!is_within(action.transfer, program.transfers.size()))
        return "its transfer does not exist";
      const Transfer& transfer = program.transfer(action.transfer);
      const WorkerId end =
          action.kind == ActionKind::Send ? transfer.from : transfer.to;
      if (!program.operation(transfer.from, transfer.made_by))
        return "its sender does not have the stage that makes it";
      if (end != worker)
        return "the transfer is worker " + std::to_string(end.value) + "'s";
      return std::nullopt;
    }
    case ActionKind::Reduce: {
      if (!is_within(action.reduction, program.reductions.size()))
        return "its reduction does not exist";
      const auto& workers = program.reduction(action.reduction).workers;
      if (std::find(workers.begin(), workers.end(), worker) == workers.end())
        return "the reduction is not this worker's";
      for (ReductionId r : program.reduction(action.reduction).after)
        if (r.is_none() || r >= action.reduction)
          return "it waits for a reduction that does not come before it";
      return std::nullopt;
    }
    default:
      if (!stage_here) return "the worker does not have the stage";
      if (!is_within(action.read_set, program.read_sets.size()))
        return "its read set does not exist";
      const ReadSet& set = program.reads(action);
      for (TransferId id : set.transfers)
        if (program.transfers[id.index()].to != worker)
          return "it reads a transfer to another worker";
      for (const LocalRead& read : set.local)
        if (!program.operation(worker, read.stage))
          return "it reads a stage that the worker does not have";
      return std::nullopt;
  }
}

std::optional<Error> indices_fault(const Program& program) {
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    const WorkerProgram& worker = program.workers[w];
    std::int64_t position = 0;
    for (const auto* list : {&worker.prologue, &worker.body, &worker.epilogue})
      for (std::size_t k = 0; k < list->size(); ++k, ++position) {
        const Action& action = (*list)[k];
        auto why = index_fault(program, WorkerId(w), action);
        const bool pairs = k + 1 < list->size() &&
                           is_compute((*list)[k + 1].kind) &&
                           !(*list)[k + 1].joined;
        if (!why && action.joined && !(is_compute(action.kind) && pairs))
          why = "it is joined with nothing";
        if (why)
          return program_fault(program, 1, {{WorkerId(w), position}}, *why);
      }
  }
  return std::nullopt;
}

std::vector<StageDelay> staleness(const Program& program) {
  std::vector<StageDelay> sums(program.num_stages);
  std::vector<int> forwards(sums.size()), backwards(sums.size());
  std::vector<int> recomputes(sums.size());
  for (const WorkerProgram& worker : program.workers)
    for (const Action& action : worker.body) {
      if (!is_compute(action.kind)) continue;
      const std::size_t s = action.stage.index();
      const int behind =
          program.minibatch_of(action.microbatch) - action.version;
      if (action.kind == ActionKind::Forward) {
        sums[s].forward += behind;
        ++forwards[s];
      } else if (action.kind == ActionKind::Recompute) {
        sums[s].recompute += behind;
        ++recomputes[s];
      } else if (action.kind == ActionKind::Backward ||
                 action.kind == ActionKind::BackwardInput) {
        sums[s].backward += behind;
        ++backwards[s];
      }
    }
  for (std::size_t s = 0; s < sums.size(); ++s) {
    if (forwards[s]) sums[s].forward /= forwards[s];
    if (backwards[s]) sums[s].backward /= backwards[s];
    if (recomputes[s]) sums[s].recompute /= recomputes[s];
    sums[s].corrected = program.delays[s].corrected;
    sums[s].averaging = program.delays[s].averaging;
  }
  return sums;
}

}  // namespace

int settling_repetitions(const Program& program) {
  std::int32_t first = INT32_MAX, last = INT32_MIN;
  for (const WorkerProgram& worker : program.workers)
    for (const Action& action : worker.body) {
      const std::int32_t minibatch = program.minibatch_of(action.microbatch);
      first = std::min({first, minibatch, action.version});
      last = std::max({last, minibatch, action.version});
    }
  return first > last ? 0 : last - first + 2;
}

Result<ProgramFacts> validate(const Program& program) {
  if (auto error = indices_fault(program)) return *error;
  std::vector<int> peak_in_flight;
  for (int repetitions : {0, settling_repetitions(program)}) {
    if (program.minibatches_outside + repetitions == 0) continue;
    if (auto error = run_fault(program, repetitions, peak_in_flight))
      return *error;
  }
  std::int64_t actions = 0;
  for (const WorkerProgram& worker : program.workers)
    actions += static_cast<std::int64_t>(
        worker.prologue.size() + worker.body.size() + worker.epilogue.size());
  return ProgramFacts{actions, std::move(peak_in_flight), staleness(program)};
}

}  // namespace pipewright
