#include "pipewright/schedules/zero_bubble_improve.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"

namespace pipewright::zb {
namespace {

// Most moves are rejected by an estimate: at most this many per timed order.
constexpr int kMovesPerTry = 20;
// Simulated annealing: by how much an accepted order may be longer at first, as
// a share of the time of a microbatch.
constexpr double kHeat = 0.05;
constexpr int kMaxDistance = 24;  // of one move

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

// A block of the longest path: positions first..last of one worker.
struct Block {
  int worker, first, last;
};
struct Move {
  int worker, from, to;
};

class LocalSearch {
 public:
  LocalSearch(const Problem& problem, Clock& clock, Order& order)
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
    find_blocks();
    const int max_moves = kMovesPerTry * tries;
    for (int move_count = 0, timed = 0;
         move_count < max_moves && timed < tries && !blocks_.empty() &&
         best.makespan > bound.makespan * (1 + 1e-9);
         ++move_count) {
      // Cooling: at first a slightly longer order is accepted too.
      const double progress =
          std::max(double(move_count) / max_moves, double(timed) / tries);
      const double heat = kHeat * now.makespan / problem_.microbatches *
                          (1 - progress) * (1 - progress);
      const double longest =
          now.makespan - heat * std::log(random_.share() + 1e-300);
      const Move move = random_move();
      if (move.from == move.to || !is_allowed(move)) continue;
      if (estimate(move) > longest) continue;
      ++timed;
      apply(move);
      const Cost cost = clock_.run(order_);
      if (!(cost.makespan <= longest)) {
        apply({move.worker, move.to, move.from});
        continue;
      }
      now = cost;
      find_blocks();
      if (is_better(now, best)) {
        best = now;
        best_order = order_;
      }
    }
    order_ = std::move(best_order);
    return best;
  }

 private:
  // Follows the longest path back from the last action. The clock must have run
  // on order_.
  void find_blocks() {
    clock_.run_back(order_);
    times_ = clock_.times();
    blocks_.clear();
    int action = times_.last_action;
    while (action >= 0) {
      const int worker = problem_.worker_of(problem_.stage_of(action));
      const auto& line = order_[at(worker)];
      Block block{worker, position_[at(action)], position_[at(action)]};
      while (block.first > 0 && !waited_for_input(action))
        action = line[at(--block.first)];
      if (block.last > block.first) blocks_.push_back(block);
      action = waited_for_input(action) ? clock_.input(action) : -1;
    }
  }
  double input_ready(int action) const {
    const int input = clock_.input(action);
    return input < 0 ? 0 : times_.end[at(input)] + clock_.delay(action);
  }
  bool waited_for_input(int action) const {
    return clock_.input(action) >= 0 &&
           input_ready(action) >= times_.start[at(action)];
  }

  // The longest path through the actions that the move shifts, if the times of
  // other workers stayed the same.
  double estimate(const Move& move) {
    const auto& line = order_[at(move.worker)];
    const int low = std::min(move.from, move.to);
    const int high = std::max(move.from, move.to);
    shifted_.assign(line.begin() + low, line.begin() + high + 1);
    if (move.from < move.to)
      std::rotate(shifted_.begin(), shifted_.begin() + 1, shifted_.end());
    else
      std::rotate(shifted_.begin(), shifted_.end() - 1, shifted_.end());
    ends_.clear();
    double now = low > 0 ? times_.end[at(line[at(low - 1)])] : 0;
    for (const int action : shifted_) {
      now = std::max(now, input_ready(action)) + clock_.duration(action);
      ends_.push_back(now);
    }
    double longest = 0, tail = 0;
    if (at(high + 1) < line.size()) {
      const int next = line[at(high + 1)];
      tail = clock_.duration(next) + times_.tail[at(next)];
    }
    for (std::size_t i = shifted_.size(); i-- > 0;) {
      if (const int output = clock_.output(shifted_[i]); output >= 0)
        tail = std::max(tail, clock_.delay(output) + clock_.duration(output) +
                                  times_.tail[at(output)]);
      longest = std::max(longest, ends_[i] + tail);
      tail += clock_.duration(shifted_[i]);
    }
    return longest;
  }

  // Moves an action of a block to its end or to its beginning.
  Move random_move() {
    const Block& block =
        blocks_[at(random_.below(static_cast<int>(blocks_.size())))];
    const int length = std::min(block.last - block.first, kMaxDistance);
    if (random_.below(2) == 0)
      return shortened(
          {block.worker, block.last - 1 - random_.below(length), block.last});
    return shortened(
        {block.worker, block.first + 1 + random_.below(length), block.first});
  }

  // Only as far as F, I and W of one microbatch stay in order.
  Move shortened(Move move) const {
    const auto& line = order_[at(move.worker)];
    const int triple = line[at(move.from)] / 3;
    const int step = move.from < move.to ? 1 : -1;
    int to = move.from;
    while (to != move.to && line[at(to + step)] / 3 != triple) to += step;
    move.to = to;
    return move;
  }

  // Whether the worker's memory allows the move.
  bool is_allowed(const Move& move) const {
    const auto& line = order_[at(move.worker)];
    const int limit = problem_.limit[at(move.worker)];
    if (limit >= problem_.stages_per_worker * problem_.microbatches)
      return true;
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
  Times times_;                // of order_
  std::vector<Block> blocks_;
  std::vector<int> shifted_;  // for estimate()
  std::vector<double> ends_;
  Random random_;
};

}  // namespace

Cost improve(const Problem& problem, Clock& clock, const Cost& bound, int tries,
             Order& order) {
  return LocalSearch(problem, clock, order).best_of(tries, bound);
}

}  // namespace pipewright::zb
