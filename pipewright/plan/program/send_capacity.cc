#include "pipewright/plan/program/send_capacity.h"

#include <algorithm>
#include <limits>

#include "pipewright/base/index.h"
#include "pipewright/plan/program/execution.h"

namespace pipewright {
namespace {

// Steady after the first repetitions: later ones look the same.
constexpr int kRepetitions = 4;

// A walk in which a Send waits while its transfer is at its capacity.
class BoundedWalk {
 public:
  // An empty capacity: no bound.
  BoundedWalk(const Program& program, int repetitions,
              const std::vector<int>& capacity)
      : program_(program),
        capacity_(capacity),
        state_(program, repetitions, matched_messages(program, repetitions)),
        under_way_(program.transfers.size()),
        peaks_(program.transfers.size()) {
    for (const auto& numbers : state_.messages().numbers)
      is_taken_.emplace_back(numbers.size());
    for (std::size_t w = 0; w < program.workers.size(); ++w) {
      ActionCursor end(program, WorkerId(w), repetitions);
      while (!end.at_end()) end.advance();
      lengths_.push_back(static_cast<double>(end.position()));
    }
  }

  // False if nobody can go on before the end.
  bool run() {
    for (WorkerId worker = least_advanced(); !worker.is_none();
         worker = least_advanced()) {
      count(worker, state_.next(worker));
      state_.perform(worker);
    }
    return state_.is_finished();
  }
  const std::vector<int>& peaks() const { return peaks_; }

 private:
  // Of those that can go on; none if there is none.
  WorkerId least_advanced() const {
    WorkerId best;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t w = 0; w < lengths_.size(); ++w) {
      const WorkerId worker(w);
      if (state_.is_at_end(worker)) continue;
      const double share =
          static_cast<double>(state_.position(worker)) / lengths_[w];
      if (share >= least || !can_start(worker)) continue;
      least = share;
      best = worker;
    }
    return best;
  }

  bool is_counted(TransferId transfer) const {
    return !program_.transfer(transfer).is_keyed_by_version();
  }

  bool can_start(WorkerId worker) const {
    const Action& action = state_.next(worker);
    if (action.kind != ActionKind::Send) return state_.can_start(worker);
    return capacity_.empty() || !is_counted(action.transfer) ||
           under_way_[action.transfer.index()] <
               capacity_[action.transfer.index()];
  }

  // A message is under way until the first action that reads it.
  void count(WorkerId worker, const Action& action) {
    if (action.kind == ActionKind::Send && is_counted(action.transfer)) {
      const std::size_t t = action.transfer.index();
      peaks_[t] = std::max(peaks_[t], ++under_way_[t]);
    }
    all_dependencies(program_, worker, action, [this](const Dependency& one) {
      if (one.is_message() && is_counted(one.transfer)) take(one);
      return true;
    });
  }

  void take(const Dependency& message) {
    const std::size_t t = message.transfer.index();
    const std::size_t key = at(message.key);
    if (!is_taken_[t][key]) --under_way_[t];
    is_taken_[t][key] = true;
  }

  const Program& program_;
  const std::vector<int>& capacity_;
  ExecutionState state_;
  std::vector<int> under_way_, peaks_;       // per transfer
  std::vector<std::vector<bool>> is_taken_;  // per transfer and key
  std::vector<double> lengths_;              // actions, per worker
};

}  // namespace

std::vector<int> needed_send_capacity(const Program& program, int repetitions) {
  const std::vector<int> unbounded;
  BoundedWalk walk(program, repetitions, unbounded);
  walk.run();
  return walk.peaks();
}

bool is_enough(const std::vector<int>& capacity, const Program& program,
               int repetitions) {
  return BoundedWalk(program, repetitions, capacity).run();
}

int SendCapacity::expected(const Program& program) {
  return std::min(kMinimum, program.num_microbatches + program.num_workers());
}

int SendCapacity::of(TransferId transfer) {
  std::call_once(once_, [this] {
    needed_ = needed_send_capacity(program_, kRepetitions);
  });
  return std::max(kMinimum, 2 * needed_[transfer.index()]);
}

}  // namespace pipewright
