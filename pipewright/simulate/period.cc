// Seconds per minibatch in the long run.
//
// Where every wire is direct, an execution is a system of waits that repeats:
// x(r) = max over waits of x(r - distance) + weight, and the period is the
// largest cycle ratio of those waits (Baccelli, Cohen, Olsder, Quadrat,
// "Synchronization and Linearity", 1992). Where wires choose between transfers
// there is no such system; there the period is read off an execution once it
// repeats itself.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "pipewright/base/index.h"
#include "pipewright/simulate/cycle_ratio.h"
#include "pipewright/simulate/engine.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/timed_code.h"

namespace pipewright {
namespace {

// Nodes are the body's ops (when its worker is done with one), and after them
// one for each message (when it starts) and each reduction (likewise).
class WaitGraph {
 public:
  explicit WaitGraph(const TimedCode& code)
      : code_(code), num_nodes_(static_cast<int>(code.ops.size())) {
    first_reduction_ = num_nodes_;
    num_nodes_ += static_cast<int>(code.reductions.size());
    for (const TimedWorker& worker : code.workers) add_messages(worker);
    for (const TimedWorker& worker : code.workers) add_ops(worker);
    for (std::size_t r = 0; r < code.reductions.size(); ++r)
      for (std::int32_t before : code.reductions[r].after)
        wait(first_reduction_ + before,
             first_reduction_ + static_cast<std::int32_t>(r),
             code.reductions[at(before)].seconds, 0);
  }

  double largest_ratio() const {
    double busiest = 0;
    for (const TimedWorker& worker : code_.workers)
      busiest = std::max(busiest, worker.body_seconds);
    return largest_cycle_ratio(num_nodes_, waits_, busiest);
  }

 private:
  struct Sent {
    std::int32_t node = 0;
    std::int32_t key = 0;  // from the sender's base
  };

  int advance_of(KeyBase base) const {
    return base == KeyBase::Microbatch ? code_.program->num_microbatches : 1;
  }

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
      messages_[{op.target, residue(op.key, advance_of(op.base))}] = {node,
                                                                      op.key};
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
      double seconds = op.seconds;
      if (op.code == OpCode::Work)
        for (std::int32_t n = op.first_need; n < op.end_need; ++n)
          seconds += add_need(i, op, code_.needs[at(n)], worker.blocking);
      auto [previous, distance] = before(worker, i);
      wait(previous, i, seconds, distance);
      if (op.code == OpCode::Reduce)
        wait(i, first_reduction_ + op.target, 0, op.key);
      if (op.code == OpCode::Receive) add_receive(i, op);
    }
  }

  void add_receive(std::int32_t i, const Op& op) {
    const int advance = advance_of(op.base);
    auto sent = messages_.find({op.target, residue(op.key, advance)});
    if (sent == messages_.end()) return;
    wait(i, sent->second.node, 0, (op.key - sent->second.key) / advance);
  }

  // Seconds that the worker spends receiving it, if it blocks.
  double add_need(std::int32_t i, const Op& op, const Need& need,
                  bool blocking) {
    if (need.transfer < 0) {
      const std::int32_t reduction = reduction_of(need);
      wait(first_reduction_ + reduction, i,
           code_.reductions[at(reduction)].seconds + op.seconds, -need.key);
      return 0;
    }
    const int advance = advance_of(need.base);
    auto sent = messages_.find({need.transfer, residue(need.key, advance)});
    if (sent == messages_.end()) return 0;
    const TimedTransfer& timed = code_.transfers[at(need.transfer)];
    wait(sent->second.node, i,
         timed.seconds_on_wire + timed.latency + op.seconds,
         (sent->second.key - need.key) / advance);
    return blocking ? need.blocks : 0;
  }

  std::int32_t reduction_of(const Need& need) const {
    std::int32_t r = 0;
    while (code_.reductions[at(r)].ring != need.ring) ++r;
    return r;
  }

  const TimedCode& code_;
  int num_nodes_;
  int first_reduction_ = 0;
  std::vector<Wait> waits_;
  std::map<std::pair<std::int32_t, std::int32_t>, Sent> messages_;
  std::map<std::int32_t, std::int32_t> node_of_send_;
};

// When the slowest worker has done each repetition.
std::vector<double> repetition_ends(const TimedCode& code, int repetitions) {
  EngineOptions options;
  options.repetitions = repetitions;
  options.keep_repetition_ends = true;
  const Execution execution = execute(code, options);
  std::vector<double> ends(static_cast<std::size_t>(repetitions), 0);
  for (const auto& worker : execution.repetition_ends)
    for (std::size_t r = 0; r < worker.size(); ++r)
      ends[r] = std::max(ends[r], worker[r]);
  return ends;
}

// Whether the last `windows` stretches of c repetitions took the same time.
bool repeats_every(const std::vector<double>& ends, std::size_t c,
                   std::size_t windows) {
  const std::size_t last = ends.size() - 1;
  const double stretch = ends[last] - ends[last - c];
  for (std::size_t i = 0; i < c * windows; ++i)
    if (std::abs(ends[last - i] - ends[last - i - c] - stretch) >
        1e-12 * ends[last])
      return false;
  return true;
}

double observed_period(const TimedCode& code) {
  constexpr int kRepetitions = 256;
  const auto ends = repetition_ends(code, kRepetitions);
  const std::size_t last = ends.size() - 1;
  for (std::size_t c = 1; c <= 32; ++c)
    if (repeats_every(ends, c, 3))
      return (ends[last] - ends[last - c]) / static_cast<double>(c);
  return (ends[last] - ends[last / 2]) / static_cast<double>(last - last / 2);
}

// A wire may fall behind workers that do not wait for what it carries.
double busiest_wire(const TimedCode& code) {
  std::vector<double> seconds(code.wires.size(), 0);
  for (const TimedWorker& worker : code.workers)
    for (std::int32_t i = worker.begin[1]; i < worker.begin[2]; ++i) {
      const Op& op = code.ops[at(i)];
      if (op.code != OpCode::Send) continue;
      const TimedTransfer& timed = code.transfers[at(op.target)];
      const std::int32_t wire = code.channels[at(timed.channel)].wire;
      if (wire >= 0) seconds[at(wire)] += timed.seconds_on_wire;
    }
  return seconds.empty() ? 0
                         : *std::max_element(seconds.begin(), seconds.end());
}

}  // namespace

Seconds steady_state_period(const Program& program, const Costs& costs) {
  const TimedCode code = timed_code(program, costs);
  if (code.is_direct()) return Seconds(WaitGraph(code).largest_ratio());
  return Seconds(std::max(observed_period(code), busiest_wire(code)));
}

}  // namespace pipewright
