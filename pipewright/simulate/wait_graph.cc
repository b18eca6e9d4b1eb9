// Where every wire is direct, an execution is a system of waits that repeats:
// x(r) = max over waits of x(r - distance) + weight, and the period is the
// largest cycle ratio of those waits (Baccelli, Cohen, Olsder, Quadrat,
// "Synchronization and Linearity", 1992).

#include "pipewright/simulate/wait_graph.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "pipewright/base/index.h"
#include "pipewright/simulate/cycle_ratio.h"

namespace pipewright {
namespace {

// Nodes are the body's ops (when its worker is done with one), and after them
// one for each message (when it starts) and each reduction (likewise).
class WaitGraph {
 public:
  explicit WaitGraph(const TimedCode& code)
      : code_(code), num_nodes_(static_cast<int>(code.ops.size())) {
    for (const TimedWorker& worker : code.workers) add_messages(worker);
    for (const TimedWorker& worker : code.workers) add_ops(worker);
    for (std::size_t r = 0; r < code.after.size(); ++r)
      for (std::int32_t before : code.after[r])
        wait(reduction_node(code.first_reduction + before, 0),
             reduction_node(code.first_reduction + static_cast<std::int32_t>(r),
                            0),
             code.transfers[at(code.first_reduction + before)].seconds(), 0);
  }

  double largest_ratio() const {
    double busiest = 0;
    for (const TimedWorker& worker : code_.workers)
      busiest = std::max(busiest, worker.body_seconds);
    return largest_cycle_ratio(num_nodes_, waits_, busiest);
  }

  // Sweeps in the order of waits, which is mostly that of ops, until nothing
  // changes: cycles have no negative distance, or the program could not run.
  int least_distance() const {
    std::vector<std::int32_t> least(at(num_nodes_), 0);
    bool changes = true;
    for (int sweep = 0; changes && sweep < num_nodes_; ++sweep) {
      changes = false;
      for (const Wait& wait : waits_) {
        const std::int32_t there = least[at(wait.from)] + wait.distance;
        if (there >= least[at(wait.to)]) continue;
        least[at(wait.to)] = there;
        changes = true;
      }
    }
    return least.empty() ? 0 : *std::min_element(least.begin(), least.end());
  }

 private:
  struct Sent {
    std::int32_t node = 0;
    std::int32_t key = 0;  // from the sender's base
  };

  std::int32_t residue(std::int32_t key, int advance) const {
    return ((key % advance) + advance) % advance;
  }

  void wait(std::int32_t from, std::int32_t to, double weight,
            std::int32_t distance) {
    waits_.push_back({from, to, weight, distance});
  }

  // The node after which a worker comes to an op of its body.
  std::pair<std::int32_t, std::int32_t> before(const TimedWorker& worker,
                                               std::int32_t op) const {
    if (op == worker.begin[1]) return {worker.begin[2] - 1, 1};
    return {op - 1, 0};
  }

  // Messages of one channel start one after the other, in the order of sends.
  void add_messages(const TimedWorker& worker) {
    std::map<std::int32_t, std::vector<std::int32_t>> sends;  // by channel
    for (std::int32_t i = worker.begin[1]; i < worker.begin[2]; ++i) {
      const Op& op = code_.ops[at(i)];
      if (op.code != OpCode::Send) continue;
      const std::int32_t node = num_nodes_++;
      messages_[{op.target, residue(op.key, code_.advance_of(op.base))}] = {
          node, op.key};
      auto [previous, distance] = before(worker, i);
      wait(previous, node, 0, distance);
      sends[code_.transfers[at(op.target)].channel].push_back(i);
      node_of_send_[i] = node;
    }
    for (const auto& [channel, ops] : sends)
      for (std::size_t i = 0; i < ops.size(); ++i) {
        const std::int32_t previous = i > 0 ? ops[i - 1] : ops.back();
        wait(
            node_of_send_[previous], node_of_send_[ops[i]],
            code_.transfers[at(code_.ops[at(previous)].target)].seconds_on_wire,
            i > 0 ? 0 : 1);
      }
  }

  void add_ops(const TimedWorker& worker) {
    for (std::int32_t i = worker.begin[1]; i < worker.begin[2]; ++i) {
      const Op& op = code_.ops[at(i)];
      double seconds = code_.seconds(op);
      if (op.code == OpCode::Work)
        for (std::int32_t n = op.first_need(); n < op.end_need(); ++n)
          seconds += add_need(i, op, code_.needs[at(n)], worker.blocking);
      auto [previous, distance] = before(worker, i);
      wait(previous, i, seconds, distance);
      if (op.code == OpCode::Reduce) add_part(i, op);
      if (op.code == OpCode::Receive) add_receive(i, op);
    }
  }

  // A node for each key of a repetition, counted from the first of them. Those
  // of one reduction follow each other.
  std::int32_t reduction_node(std::int32_t transfer, std::int32_t first_key) {
    auto [place, is_new] =
        reductions_.try_emplace({transfer, first_key}, num_nodes_);
    if (is_new) {
      ++num_nodes_;
      const double seconds = code_.transfers[at(transfer)].seconds_on_wire;
      wait(place->second, place->second, seconds, 1);
    }
    return place->second;
  }

  void add_part(std::int32_t i, const Op& op) {
    const int advance = code_.advance_of(op.base);
    const std::int32_t first = residue(op.key, advance);
    wait(i, reduction_node(code_.first_reduction + op.target, first), 0,
         (op.key - first) / advance);
  }

  void add_receive(std::int32_t i, const Op& op) {
    const int advance = code_.advance_of(op.base);
    auto sent = messages_.find({op.target, residue(op.key, advance)});
    if (sent == messages_.end()) return;
    wait(i, sent->second.node, 0, (op.key - sent->second.key) / advance);
  }

  // Seconds that the worker spends receiving it, if it blocks.
  double add_need(std::int32_t i, const Op& op, const Need& need,
                  bool blocking) {
    const TimedTransfer& timed = code_.transfers[at(need.transfer)];
    const int advance = code_.advance_of(need.base);
    if (need.transfer >= code_.first_reduction) {
      const std::int32_t first = residue(need.key, advance);
      wait(reduction_node(need.transfer, first), i,
           timed.seconds() + code_.seconds(op), (first - need.key) / advance);
      return 0;
    }
    auto sent = messages_.find({need.transfer, residue(need.key, advance)});
    if (sent == messages_.end()) return 0;
    wait(sent->second.node, i, timed.seconds() + code_.seconds(op),
         (sent->second.key - need.key) / advance);
    return blocking ? timed.seconds() : 0;
  }

  const TimedCode& code_;
  int num_nodes_;
  std::vector<Wait> waits_;
  std::map<std::pair<std::int32_t, std::int32_t>, Sent> messages_;
  std::map<std::int32_t, std::int32_t> node_of_send_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> reductions_;
};

}  // namespace

double period_of_waits(const TimedCode& code) {
  return WaitGraph(code).largest_ratio();
}

int most_ahead(const TimedCode& code) {
  return -WaitGraph(code).least_distance();
}

}  // namespace pipewright
