#include "pipewright/plan/memory/memory_bound.h"

#include <algorithm>
#include <map>

#include "pipewright/base/text.h"
#include "pipewright/plan/memory/causality.h"
#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/program_fault.h"
#include "pipewright/plan/validation/validate.h"

namespace pipewright {
namespace {

struct Change {
  Bytes activations, buffers;
  void add(Bytes more_activations, Bytes more_buffers) {
    activations += more_activations;
    buffers += more_buffers;
  }
};

// What others do to a worker's memory, by its own position: before an action
// (releases first, then arrivals) and after it.
struct FromOutside {
  std::map<std::int64_t, Change> releases, arrivals, after;
};

std::vector<FromOutside> from_outside(const Program& program, int repetitions) {
  std::vector<FromOutside> all(program.workers.size());
  for (const MessageLife& life : message_lives(program, repetitions)) {
    const Transfer& transfer = program.transfers[life.transfer.index()];
    FromOutside& sender = all[transfer.from.index()];
    const Bytes leaving = transfer.freed_by_sender;
    sender.after[life.sent].add(Bytes(0) - leaving, leaving);
    if (life.known_read >= 0)
      sender.releases[life.known_read].add(Bytes(0), Bytes(0) - leaving);
    if (transfer.is_keyed_by_version()) continue;  // in a version's own place
    FromOutside& receiver = all[transfer.to.index()];
    receiver.arrivals[life.arrives_from].add(Bytes(0), transfer.bytes);
    if (life.last_read >= 0)
      receiver.after[life.last_read].add(transfer.retained_by_reader,
                                         Bytes(0) - transfer.bytes);
  }
  return all;
}

class Walk {
 public:
  Walk(const Program& program, WorkerId worker, const FromOutside& outside)
      : program_(program), worker_(worker), outside_(outside) {
    bound_.peak = now_ = constant_memory(program, worker);
  }

  MemoryBound bound(int repetitions) {
    for (ActionCursor at(program_, worker_, repetitions); !at.at_end();
         at.advance()) {
      const Action action = at.action();
      const std::int64_t position = at.position();
      apply(outside_.releases, position);
      apply(outside_.arrivals, position);
      const Effect& effect = program_.life(action).effect;
      now_.activations += effect.allocates;
      if (action.kind == ActionKind::Forward) ++in_flight_;
      if (now_.total() > bound_.peak.total())
        bound_ = {now_, position, action, in_flight_};
      frees_ += effect.frees;
      if (action.joined) continue;  // ends with the next one
      now_.activations -= frees_;
      frees_ = Bytes(0);
      for (; ended_ <= position; ++ended_) apply(outside_.after, ended_);
      if (action.kind == ActionKind::Backward ||
          action.kind == ActionKind::BackwardWeight)
        --in_flight_;
    }
    return bound_;
  }

 private:
  void apply(const std::map<std::int64_t, Change>& changes,
             std::int64_t position) {
    const auto change = changes.find(position);
    if (change == changes.end()) return;
    now_.activations += change->second.activations;
    now_.buffers += change->second.buffers;
  }

  const Program& program_;
  const WorkerId worker_;
  const FromOutside& outside_;
  MemoryUse now_;
  Bytes frees_;
  std::int64_t ended_ = 0;  // actions whose effects have been applied
  int in_flight_ = 0;
  MemoryBound bound_;
};

// What holds at one repetition holds one later: no distance in the program is
// longer than settling takes.
int repetitions_for(const Program& program) {
  return settling_repetitions(program) + 1;
}

}  // namespace

std::vector<MemoryBound> memory_bounds(const Program& program) {
  const int repetitions = repetitions_for(program);
  const auto outside = from_outside(program, repetitions);
  std::vector<MemoryBound> bounds;
  for (std::size_t w = 0; w < program.workers.size(); ++w)
    bounds.push_back(Walk(program, WorkerId(w), outside[w]).bound(repetitions));
  return bounds;
}

Result<void> check_memory(const Program& program,
                          const std::vector<Bytes>& limits) {
  const auto bounds = memory_bounds(program);
  for (std::size_t w = 0; w < bounds.size(); ++w) {
    const MemoryBound& bound = bounds[w];
    if (bound.peak.total() <= limits[w]) continue;
    Error error = program_fault(
        program, repetitions_for(program), {{WorkerId(w), bound.position}},
        "its worker may hold " + to_text(bound.peak.total()) +
            " here, but has " + to_text(limits[w]) + ": " +
            to_text(bound.peak) + " (" +
            counted(bound.microbatches, "microbatch") +
            " in flight); fewer in flight, recomputation, more stages or a "
            "larger device would do");
    error.code = ErrorCode::BadConfiguration;
    return error;
  }
  return {};
}

}  // namespace pipewright
