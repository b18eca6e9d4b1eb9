#include "pipewright/simulate/contended_execution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "pipewright/simulate/history/replay.h"

namespace pipewright {
namespace {

// Of a program that overlaps minibatches, whose times may never settle.
constexpr std::int64_t kMinRounds = 20, kMaxActionsInRounds = 10'000'000;
constexpr double kNoChange = 1e-9;  // of the duration

struct BusyInterval {
  std::size_t op = 0;
  double start = 0, end = 0;
};

// How many others compute, as it changes over time.
class OthersAtWork {
 public:
  void add(const std::vector<BusyInterval>& intervals) {
    for (const BusyInterval& each : intervals) {
      if (each.end <= each.start) continue;
      changes_.emplace_back(each.start, 1);
      changes_.emplace_back(each.end, -1);
    }
  }
  void sort() { std::sort(changes_.begin(), changes_.end()); }

  // How long work that takes `alone` seconds with the unit to itself takes from
  // `start` on. Starts ascend from call to call.
  double seconds(double start, double alone,
                 const std::vector<double>& slowdowns) {
    while (next_ < changes_.size() && changes_[next_].first <= start)
      count_ += changes_[next_++].second;
    double time = start;
    std::size_t next = next_;
    for (int count = count_;; count += changes_[next++].second) {
      const double slowdown = slowdowns[std::min(
          static_cast<std::size_t>(count), slowdowns.size() - 1)];
      const double until = next < changes_.size()
                               ? changes_[next].first
                               : std::numeric_limits<double>::infinity();
      if (time + alone * slowdown <= until)
        return time + alone * slowdown - start;
      alone -= (until - time) / slowdown;
      time = until;
    }
  }

 private:
  std::vector<std::pair<double, int>> changes_;
  std::size_t next_ = 0;
  int count_ = 0;
};

class ContendedRounds {
 public:
  ContendedRounds(TimedCode& code, const Costs::Contention& contention)
      : code_(code), contention_(contention), alone_(code.ops.size()) {
    for (std::size_t i = 0; i < code.ops.size(); ++i) {
      Op& op = code.ops[i];
      if (op.code != OpCode::Work) continue;
      alone_[i] = code.seconds(op);
      code.op_costs.push_back(OpCost(code.op_costs[op.cost]));
      op.cost = static_cast<std::int32_t>(code.op_costs.size()) - 1;
    }
  }

  // Gives every op of work its new time. False: none has changed.
  bool renew_times(const Execution& execution) {
    std::vector<std::vector<BusyInterval>> busy;
    for (std::size_t w = 0; w < code_.workers.size(); ++w)
      busy.push_back(intervals(execution.journal, w));
    bool has_changed = false;
    for (std::size_t w = 0; w < busy.size(); ++w)
      if (renew_times_of(w, busy, kNoChange * execution.duration))
        has_changed = true;
    return has_changed;
  }

  void sum_bodies() {
    for (TimedWorker& worker : code_.workers) {
      worker.body_seconds = 0;
      for (std::int32_t i = worker.begin[kBody]; i < worker.begin[kEpilogue];
           ++i)
        if (code_.ops[i].code == OpCode::Work)
          worker.body_seconds += code_.seconds(code_.ops[i]);
    }
  }

 private:
  std::vector<BusyInterval> intervals(const Journal& journal,
                                      std::size_t worker) const {
    std::vector<BusyInterval> result;
    replay(
        code_, journal, worker,
        [&](const ReplayPoint&, const Op& op, double start, double end) {
          result.push_back(
              {static_cast<std::size_t>(&op - code_.ops.data()), start, end});
        },
        [](const ReplayPoint&, const Op&, double) {});
    return result;
  }

  bool renew_times_of(std::size_t worker,
                      const std::vector<std::vector<BusyInterval>>& busy,
                      double no_change) {
    OthersAtWork others;
    for (std::size_t w = 0; w < busy.size(); ++w)
      if (w != worker && contention_.units[w] == contention_.units[worker])
        others.add(busy[w]);
    others.sort();
    std::vector<double> sums(code_.ops.size());
    std::vector<int> counts(code_.ops.size());
    for (const BusyInterval& each : busy[worker]) {
      sums[each.op] +=
          others.seconds(each.start, alone_[each.op], contention_.slowdowns);
      ++counts[each.op];
    }
    bool has_changed = false;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == 0) continue;
      double& seconds = code_.op_costs[code_.ops[i].cost].seconds;
      const double renewed = sums[i] / counts[i];
      has_changed = has_changed || std::abs(renewed - seconds) > no_change;
      seconds = renewed;
    }
    return has_changed;
  }

  TimedCode& code_;
  const Costs::Contention& contention_;
  std::vector<double> alone_;  // seconds by op
};

}  // namespace

Execution execute_contended(TimedCode& code, EngineOptions options,
                            const Costs::Contention& contention) {
  if (contention.slowdowns.empty()) return execute(code, options);
  options.keep_journal = true;
  ContendedRounds rounds(code, contention);
  Execution execution = execute(code, options);
  const auto may_go_on = [&](std::int64_t round) {
    return round < kMinRounds ||
           round * execution.num_actions < kMaxActionsInRounds;
  };
  for (std::int64_t round = 0;
       may_go_on(round) && rounds.renew_times(execution); ++round)
    execution = execute(code, options);
  rounds.sum_bodies();
  return execution;
}

}  // namespace pipewright
