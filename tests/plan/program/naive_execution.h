// The rule of execution.h once more, as plainly as possible: an action looks
// through the lists of all workers for what it depends on. Shares no code with
// execution.cc.

#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

class NaiveExecution {
 public:
  NaiveExecution(const Program& program, int minibatches) : program_(program) {
    for (std::size_t w = 0; w < program.workers.size(); ++w)
      lists_.push_back(unrolled(program, WorkerId(w), minibatches));
    done_.resize(lists_.size());
  }

  std::size_t num_workers() const { return lists_.size(); }
  bool is_at_end(std::size_t w) const { return done_[w] == lists_[w].size(); }
  const Action& next(std::size_t w) const { return lists_[w][done_[w]]; }
  void perform(std::size_t w) { ++done_[w]; }

  bool can_start(std::size_t w) const {
    if (!has_all(w, next(w))) return false;
    return !next(w).joined || has_all(w, lists_[w][done_[w] + 1]);
  }

 private:
  int minibatch(const Action& action) const {
    return static_cast<int>(std::floor(double(action.microbatch.value) /
                                       double(program_.num_microbatches)));
  }

  template <class Matches>
  bool is_done(WorkerId worker, Matches matches) const {
    const auto& list = lists_[worker.index()];
    const auto end =
        list.begin() + static_cast<std::ptrdiff_t>(done_[worker.index()]);
    return std::find_if(list.begin(), end, matches) != end;
  }

  bool has_arrived(TransferId id, std::int32_t key) const {
    const Transfer& transfer = program_.transfers[id.index()];
    const auto is_end = [&](ActionKind kind) {
      return [&, kind](const Action& other) {
        return other.kind == kind && other.transfer == id &&
               (transfer.kind == TransferKind::Weights
                    ? other.version
                    : other.microbatch.value) == key;
      };
    };
    return is_done(transfer.from, is_end(ActionKind::Send)) &&
           is_done(transfer.to, is_end(ActionKind::Receive));
  }

  bool is_reduced(ReductionId id, int of_minibatch) const {
    const auto& workers = program_.reductions[id.index()].workers;
    return std::all_of(workers.begin(), workers.end(), [&](WorkerId worker) {
      return is_done(worker, [&](const Action& other) {
        return other.kind == ActionKind::Reduce && other.reduction == id &&
               minibatch(other) == of_minibatch;
      });
    });
  }

  bool has_all(std::size_t w, const Action& action) const {
    if (action.kind == ActionKind::Send || action.kind == ActionKind::Receive)
      return true;
    if (action.kind == ActionKind::Reduce) {
      for (const ReductionId sum :
           program_.reductions[action.reduction.index()].after) {
        const auto& workers = program_.reductions[sum.index()].workers;
        if (std::count(workers.begin(), workers.end(), WorkerId(w)) &&
            !is_reduced(sum, minibatch(action)))
          return false;
      }
      return true;
    }
    const ReadSet& set = program_.read_sets[action.read_set.index()];
    for (const ReductionId id : set.reductions)
      if (!is_reduced(id, minibatch(action))) return false;
    for (const TransferId id : set.transfers) {
      const Transfer& transfer = program_.transfers[id.index()];
      std::int32_t key = action.microbatch.value;
      if (transfer.kind == TransferKind::Weights) {
        key = 0;
        for (const WeightRead& read : set.weights)
          if (read.group == transfer.group) key = action.version + read.offset;
        if (key <= 0) continue;
      }
      if (!has_arrived(id, key)) return false;
    }
    return true;
  }

  const Program& program_;
  std::vector<std::vector<Action>> lists_;
  std::vector<std::size_t> done_;
};

}  // namespace pipewright
