// Executions without tensors; see room.h.

#include "pipewright/runtime/channels/room.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "pipewright/plan/program/action_cursor.h"
#include "pipewright/plan/program/program_messages.h"
#include "pipewright/runtime/channels/reduction.h"

namespace pipewright {
namespace {

// Steady after the first repetitions: what comes later looks the same.
constexpr int kRepetitions = 4;

class Execution {
 public:
  Execution(const Program& program, int repetitions,
            const std::vector<int>& room)
      : program_(program),
        room_(room),
        under_way_(program.transfers.size(), 0),
        most_(program.transfers.size(), 0),
        sent_(program.transfers.size()),
        taken_(program.transfers.size()),
        reduced_(program.reductions.size()) {
    for (int w = 0; w < program.num_workers(); ++w) {
      cursors_.emplace_back(program, WorkerId(w), repetitions);
      ActionCursor end = cursors_.back();
      while (!end.at_end()) end.advance();
      lengths_.push_back(
          static_cast<double>(std::max<std::int64_t>(1, end.position())));
    }
  }

  // False if nobody can move before the end.
  bool run() {
    for (std::size_t w = next(); w < cursors_.size(); w = next()) {
      execute(WorkerId(w), cursors_[w].action());
      cursors_[w].advance();
    }
    return std::all_of(cursors_.begin(), cursors_.end(),
                       [](const ActionCursor& at) { return at.at_end(); });
  }
  const std::vector<int>& most() const { return most_; }

 private:
  // The worker that can move and has done the least; none: past the last.
  std::size_t next() const {
    std::size_t best = cursors_.size();
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t w = 0; w < cursors_.size(); ++w) {
      if (cursors_[w].at_end()) continue;
      const double share =
          static_cast<double>(cursors_[w].position()) / lengths_[w];
      if (share < least && can_start(WorkerId(w), cursors_[w].action())) {
        least = share;
        best = w;
      }
    }
    return best;
  }

  const ReadSet& reads(const Action& action) const {
    return program_.reads(action);
  }

  bool is_there(TransferId id, std::int32_t key) const {
    const auto& transfer = program_.transfers[id.index()];
    if (!transfer.is_keyed_by_version())
      return sent_[id.index()].count(key) > 0;
    return key <= 0 ||
           (!sent_[id.index()].empty() && *sent_[id.index()].rbegin() >= key);
  }

  bool is_reduced(ReductionId reduction, const Action& action) const {
    const std::size_t at = reduction.index();
    const auto found = reduced_[at].find(action.microbatch);
    return found != reduced_[at].end() &&
           found->second >= program_.reductions[at].workers.size();
  }

  bool can_start(WorkerId worker, const Action& action) const {
    if (action.kind == ActionKind::Send) {
      const std::size_t at = action.transfer.index();
      return program_.transfers[at].is_keyed_by_version() || room_.empty() ||
             under_way_[at] < room_[at];
    }
    if (action.kind == ActionKind::Receive) return true;
    if (action.kind == ActionKind::Reduce) {
      const auto sums =
          sums_read(program_.reduction(action.reduction), worker, program_);
      return std::all_of(sums.begin(), sums.end(),
                         [&](ReductionId r) { return is_reduced(r, action); });
    }
    const ReadSet& set = reads(action);
    return std::all_of(
               set.transfers.begin(), set.transfers.end(),
               [&](TransferId id) {
                 return is_there(
                     id, key_read(program_.transfers[id.index()], set, action));
               }) &&
           std::all_of(set.reductions.begin(), set.reductions.end(),
                       [&](ReductionId r) { return is_reduced(r, action); });
  }

  void execute(WorkerId worker, const Action& action) {
    if (action.kind == ActionKind::Receive) return;
    if (action.kind == ActionKind::Reduce) {
      ++reduced_[action.reduction.index()][action.microbatch];
      return;
    }
    if (action.kind == ActionKind::Send) {
      const std::size_t at = action.transfer.index();
      sent_[at].insert(program_.key(action));
      most_[at] = std::max(most_[at], ++under_way_[at]);
      return;
    }
    for (const TransferId id : reads(action).transfers)
      if (program_.transfers[id.index()].to == worker &&
          taken_[id.index()].insert(action.microbatch).second)
        --under_way_[id.index()];
  }

  const Program& program_;
  const std::vector<int>& room_;  // by transfer; empty: no bound
  std::vector<int> under_way_, most_;
  std::vector<std::set<std::int32_t>> sent_, taken_;  // by transfer: keys
  std::vector<std::map<std::int32_t, std::size_t>> reduced_;
  std::vector<ActionCursor> cursors_;
  std::vector<double> lengths_;
};

}  // namespace

std::vector<int> needed_room(const Program& program, int repetitions) {
  const std::vector<int> unbounded;
  Execution execution(program, repetitions, unbounded);
  execution.run();
  return execution.most();
}

bool gets_by_with(const std::vector<int>& room, const Program& program,
                  int repetitions) {
  return Execution(program, repetitions, room).run();
}

int Room::expected(const Program& program) {
  return std::min(kLeast, program.num_microbatches + program.num_workers());
}

int Room::of(TransferId transfer) {
  std::call_once(once_,
                 [this] { needed_ = needed_room(program_, kRepetitions); });
  return std::max(kLeast, 2 * needed_[transfer.index()]);
}

}  // namespace pipewright
