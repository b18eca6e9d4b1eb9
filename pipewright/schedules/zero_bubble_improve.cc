#include "pipewright/schedules/zero_bubble_improve.h"

#include <algorithm>
#include <cmath>

namespace pipewright::zb {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Random {  // SplitMix64
 public:
  std::uint64_t operator()() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int below(int n) { return static_cast<int>((*this)() % std::uint64_t(n)); }
  double share() { return static_cast<double>((*this)() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_ = 1;
};

// A run of the longest path: positions first..last of one worker.
struct Run {
  int worker, first, last;
};
struct Move {
  int worker, from, to;
};

class Search {
 public:
  Search(const Problem& problem, Clock& clock, Order& order)
      : problem_(problem),
        clock_(clock),
        order_(order),
        position_(at(problem.num_actions())) {
    for (const auto& line : order_)
      for (std::size_t i = 0; i < line.size(); ++i)
        position_[at(line[i])] = static_cast<int>(i);
  }

  Cost best_of(int tries, const Cost& bound) {
    Cost now = clock_.run(order_), best = now;
    Order best_order = order_;
    follow_longest_path();
    for (int i = 0; i < tries && !runs_.empty(); ++i) {
      if (!is_better(bound, best)) break;
      const Move move = some_move();
      if (move.from == move.to || !is_allowed(move)) continue;
      apply(move);
      const Cost cost = clock_.run(order_);
      // Cooling: at first a slightly longer order is taken too.
      const double heat = 0.02 * now.makespan / problem_.microbatches *
                          std::pow(1.0 - static_cast<double>(i) / tries, 2);
      if (cost.makespan > now.makespan - heat * std::log(random_.share())) {
        apply({move.worker, move.to, move.from});
        continue;
      }
      now = cost;
      follow_longest_path();
      if (is_better(now, best)) {
        best = now;
        best_order = order_;
      }
    }
    order_ = std::move(best_order);
    return best;
  }

 private:
  // Back from the last action over whatever it waited for.
  void follow_longest_path() {
    runs_.clear();
    int action = clock_.last_action();
    while (action >= 0) {
      const int worker = problem_.worker_of(problem_.stage_of(action));
      const auto& line = order_[at(worker)];
      Run run{worker, position_[at(action)], position_[at(action)]};
      while (run.first > 0 && !waited_for_input(action)) {
        action = line[at(--run.first)];
      }
      if (run.last > run.first) runs_.push_back(run);
      action = waited_for_input(action) ? problem_.input_of(action) : -1;
    }
  }
  bool waited_for_input(int action) const {
    return problem_.input_of(action) >= 0 &&
           clock_.input_there(action) >= clock_.start(action);
  }

  // Something of a run to behind its end or before its beginning.
  Move some_move() {
    const Run& run = runs_[at(random_.below(static_cast<int>(runs_.size())))];
    const int length = run.last - run.first;
    if (random_.below(2) == 0)
      return reached({run.worker, run.first + random_.below(length), run.last});
    return reached({run.worker, run.last - random_.below(length), run.first});
  }

  // As far as F, I and W of one microbatch stay in order.
  Move reached(Move move) const {
    const auto& line = order_[at(move.worker)];
    const int triple = line[at(move.from)] / 3;
    const int step = move.from < move.to ? 1 : -1;
    int to = move.from;
    while (to != move.to && line[at(to + step)] / 3 != triple) to += step;
    move.to = to;
    return move;
  }

  // Whether the worker's memory bears it.
  bool is_allowed(const Move& move) const {
    const auto& line = order_[at(move.worker)];
    const int limit = problem_.limit[at(move.worker)];
    if (limit >= problem_.chunks * problem_.microbatches) return true;
    const auto gain = [](int action) {
      const int kind = Problem::kind_of(action);
      return kind == kForward ? 1 : kind == kWeight ? -1 : 0;
    };
    const int moved = line[at(move.from)];
    const int low = std::min(move.from, move.to);
    const int high = std::max(move.from, move.to);
    int held = 0;
    for (int i = 0; i < low; ++i) held += gain(line[at(i)]);
    if (move.to == low && (held += gain(moved)) > limit) return false;
    for (int i = low; i <= high; ++i)
      if (i != move.from && (held += gain(line[at(i)])) > limit) return false;
    return move.to != high || held + gain(moved) <= limit;
  }

  void apply(const Move& move) {
    auto& line = order_[at(move.worker)];
    const auto from = line.begin() + move.from, to = line.begin() + move.to;
    if (from < to)
      std::rotate(from, from + 1, to + 1);
    else
      std::rotate(to, from, from + 1);
    for (int i = std::min(move.from, move.to);
         i <= std::max(move.from, move.to); ++i)
      position_[at(line[at(i)])] = i;
  }

  const Problem& problem_;
  Clock& clock_;
  Order& order_;
  std::vector<int> position_;  // of each action on its worker
  std::vector<Run> runs_;
  Random random_;
};

}  // namespace

Cost improve(const Problem& problem, Clock& clock, const Cost& bound, int tries,
             Order& order) {
  return Search(problem, clock, order).best_of(tries, bound);
}

}  // namespace pipewright::zb
