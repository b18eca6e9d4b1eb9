#include "pipewright/simulate/engine.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/simulate/engine_state.h"
#include "pipewright/simulate/ordered_wires.h"

namespace pipewright {
namespace {

enum : std::int32_t {
  kPrologue,
  kBody,
  kEpilogue
};

// kRecords: a journal is wanted. Planners ask for neither, thousands of
// times, and should not pay for it.
template <bool kRecords>
class Engine {
 public:
  Engine(const TimedCode& code, const EngineOptions& options)
      : code_(code),
        options_(options),
        wires_(code, options.in_time_order),
        state_(code),
        slots_(state_.slots),
        channels_(state_.channels),
        workers_(state_.workers) {
    result_.messages.resize(code.transfers.size());
    result_.seconds_on_wire.resize(code.transfers.size());
    if constexpr (kRecords) journal_ = Journal(code, options.repetitions);
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      const std::int32_t wire = code.channels[c].wire;
      channels_[c].is_direct = wire < 0 || (code.wires[at(wire)].is_direct() &&
                                            !options.in_time_order);
    }
  }

  Execution run() {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].next_op = code_.workers[w].begin[0];
      runnable_.push_back(static_cast<std::int32_t>(w));
    }
    do {
      while (!runnable_.empty()) run_all_runnable();
    } while (next_round());
    for (std::size_t w = 0; w < workers_.size(); ++w)
      PIPEWRIGHT_CHECK(workers_[w].is_done,
                       "worker " + std::to_string(w) +
                           " waits forever: the program was not validated");
    return summary();
  }

 private:
  // Everybody once, so that nobody runs repetitions ahead of the others and
  // queues stay short.
  void run_all_runnable() {
    running_.swap(runnable_);
    for (std::int32_t w : running_) run_worker(w);
    running_.clear();
  }

  bool next_round() {
    arrived_.clear();
    if (!wires_.next_round(arrived_)) return false;
    for (const Message& message : arrived_) arrive(message);
    return true;
  }

  // Until a read is not known, or one repetition is done.
  void run_worker(std::int32_t w) {
    const std::int32_t* begin = code_.workers[at(w)].begin;
    WorkerState& worker = workers_[at(w)];
    while (true) {
      const bool repeats = turn_page(worker, begin);
      if (repeats) {
        runnable_.push_back(w);
        return;
      }
      const std::int32_t end = begin[worker.section + 1];
      while (worker.next_op != end) {
        if (!run_op(w, worker, code_.ops[at(worker.next_op)])) return;
        ++worker.next_op;
      }
      if (worker.section == kEpilogue) {
        worker.is_done = true;
        return;
      }
    }
  }

  // At the end of a section: on to the next one, or to the body once more,
  // which is then said.
  bool turn_page(WorkerState& worker, const std::int32_t* begin) {
    const std::int32_t repetitions =
        begin[1] == begin[2] ? 0 : options_.repetitions;
    if (worker.section == kPrologue && worker.next_op == begin[1]) {
      worker.section = repetitions > 0 ? kBody : kEpilogue;
      if (repetitions > 0) return false;
      worker.next_op = begin[2];
      set_base(worker, options_.repetitions);
    } else if (worker.section == kBody && worker.next_op == begin[2]) {
      set_base(worker, ++worker.repetition);
      if (worker.repetition == repetitions) {
        worker.section = kEpilogue;
        return false;
      }
      worker.next_op = begin[1];
      return true;
    }
    return false;
  }

  void set_base(WorkerState& worker, std::int32_t repetition) {
    worker.base[0] = repetition * code_.program->num_microbatches;
    worker.base[1] = repetition;
  }

  bool run_op(std::int32_t w, WorkerState& worker, const Op& op) {
    switch (op.code) {
      case OpCode::Work:
        return work(w, worker, op);
      case OpCode::Send:
        hand_over(worker, op, true);
        worker.clock += code_.seconds(op);
        break;
      case OpCode::Receive:
        hand_over(worker, op, false);
        break;
      case OpCode::Reduce:
        reduce(worker, op);
        break;
    }
    ++num_ops_;
    return true;
  }

  bool work(std::int32_t w, WorkerState& worker, const Op& op) {
    double start = worker.clock;
    if (op.num_needs > 0 && !find_start(w, worker, op, start)) return false;
    fetch_ahead(worker, op);
    const double seconds = code_.seconds(op);
    const double end = start + seconds;
    worker.clock = end;
    worker.busy += seconds;
    num_ops_ += op.num_actions;
    if constexpr (kRecords) journal_.starts[at(w)].push_back(start);
    return true;
  }

  std::int32_t place_of(std::int32_t transfer, std::int32_t key) const {
    const TimedTransfer& timed = code_.transfers[at(transfer)];
    return timed.ring + (key & timed.mask);
  }

  // What the worker will ask for next lies anywhere among the slots; by the
  // time it does, it has come from memory.
  void fetch_ahead(const WorkerState& worker, const Op& op) const {
    if (slots_.empty()) return;
    const Need& next = code_.needs[at(op.end_need())];
    const std::int32_t key =
        next.key + worker.base[static_cast<int>(next.base)];
    __builtin_prefetch(slots_.data() + place_of(next.transfer, key));
  }

  // False, and the worker is parked, if something it needs is not known.
  bool find_start(std::int32_t w, WorkerState& worker, const Op& op,
                  double& start) {
    const bool blocking = code_.workers[at(w)].blocking;
    double there = 0, sent = 0, receiving = 0;
    std::int32_t last = code_.first_reduction;
    for (std::int32_t n = op.first_need(); n < op.end_need(); ++n) {
      const Need& need = code_.needs[at(n)];
      const std::int32_t key =
          need.key + worker.base[static_cast<int>(need.base)];
      if (key <= need.there_until) continue;
      const std::int32_t place = place_of(need.transfer, key);
      const Slot& slot = slots_[at(place)];
      if (slot.key != key) {
        worker.parked_slot = place;
        worker.parked_key = key;
        worker.parked_need = n;
        return false;
      }
      if (blocking && need.transfer < code_.first_reduction)
        receiving += code_.transfers[at(need.transfer)].seconds();
      if (slot.time > there) {
        there = slot.time;
        sent = slot.sent;
        last = need.transfer;
      }
    }
    start = std::max(start + receiving, there);
    if (last < code_.first_reduction && there > worker.clock)
      worker.waiting_for_link += there - std::max(worker.clock, sent);
    return true;
  }

  // The second of send and receive makes the transfer ready.
  void hand_over(WorkerState& worker, const Op& op, bool is_send) {
    const std::int32_t key = op.key + worker.base[static_cast<int>(op.base)];
    const std::int32_t c = code_.transfers[at(op.target)].channel;
    ChannelState& channel = channels_[at(c)];
    if (channel.pending.empty() || channel.pending_are_sends == is_send) {
      channel.pending_are_sends = is_send;
      channel.pending.push({worker.clock, op.target, key});
      return;
    }
    const Pending other = channel.pending.pop();
    PIPEWRIGHT_CHECK(other.transfer == op.target && other.key == key,
                     "a receive is not that of its send");
    Message message;
    message.transfer = op.target;
    message.key = key;
    message.sent = is_send ? worker.clock : other.time;
    message.start = std::max({worker.clock, other.time, channel.ready});
    transfer(channel, message);
  }

  void transfer(ChannelState& channel, Message& message) {
    if (!channel.is_direct) {
      channel.ready = message.start;
      wires_.want(message);
      return;
    }
    const TimedTransfer& timed = code_.transfers[at(message.transfer)];
    message.off_wire = message.start + timed.seconds_on_wire;
    message.arrival = message.off_wire + timed.latency;
    channel.ready = message.off_wire;
    arrive(message);
  }

  void arrive(const Message& message) {
    const TimedTransfer& timed = code_.transfers[at(message.transfer)];
    const std::int32_t place = place_of(message.transfer, message.key);
    slots_[at(place)] = {message.arrival, message.sent, message.key};
    latest_ = std::max(latest_, message.arrival);
    ++result_.messages[at(message.transfer)];
    result_.seconds_on_wire[at(message.transfer)] +=
        message.off_wire - message.start;
    if constexpr (kRecords)
      journal_.messages[at(timed.channel)].push_back(
          {message.start, message.arrival, message.transfer, message.key});
    if (message.transfer < code_.first_reduction)
      return unpark(code_.channels[at(timed.channel)].to, place, message.key);
    for (std::size_t w = 0; w < workers_.size(); ++w)
      unpark(static_cast<std::int32_t>(w), place, message.key);
    const std::size_t reduction = at(message.transfer - code_.first_reduction);
    for (std::int32_t follower : code_.followers[reduction])
      take_part(follower, message.key, message.arrival);
  }

  void unpark(std::int32_t w, std::int32_t place, std::int32_t key) {
    WorkerState& worker = workers_[at(w)];
    if (worker.parked_slot != place || worker.parked_key != key) return;
    worker.parked_slot = -1;
    __builtin_prefetch(&code_.ops[at(worker.next_op)]);
    __builtin_prefetch(&code_.needs[at(worker.parked_need)]);
    runnable_.push_back(w);
  }

  void reduce(WorkerState& worker, const Op& op) {
    const std::int32_t key = op.key + worker.base[static_cast<int>(op.base)];
    take_part(op.target, key, worker.clock);
  }

  // With its last part, and the end of those that come before it, which count
  // like parts, a reduction is a message. Those of one reduction follow each
  // other.
  void take_part(std::int32_t reduction, std::int32_t key, double time) {
    const std::int32_t number = code_.first_reduction + reduction;
    const TimedTransfer& timed = code_.transfers[at(number)];
    const std::int32_t parts =
        timed.parts +
        static_cast<std::int32_t>(code_.after[at(reduction)].size());
    if (parts > 1) {
      auto& open = state_.reductions[at(reduction)];
      OpenReduction& state = open[key];
      state.time = std::max(state.time, time);
      if (++state.parts < parts) return;
      time = state.time;
      open.erase(key);
    }
    ChannelState& channel = channels_[at(timed.channel)];
    Message message;
    message.transfer = number;
    message.key = key;
    message.sent = time;
    message.start = std::max(time, channel.ready);
    transfer(channel, message);
  }

  Execution summary() {
    result_.num_ops = num_ops_;
    result_.duration = latest_;
    for (const WorkerState& worker : workers_) {
      result_.duration = std::max(result_.duration, worker.clock);
      result_.workers.push_back({worker.busy, worker.waiting_for_link});
    }
    if constexpr (kRecords) result_.journal = std::move(journal_);
    return std::move(result_);
  }

  const TimedCode& code_;
  const EngineOptions options_;
  OrderedWires wires_;
  EngineState state_;
  std::vector<Slot>& slots_;
  std::vector<ChannelState>& channels_;
  std::vector<WorkerState>& workers_;
  std::vector<std::int32_t> runnable_, running_;
  std::vector<Message> arrived_;
  double latest_ = 0;
  std::int64_t num_ops_ = 0;
  Journal journal_;
  Execution result_;
};

}  // namespace

Execution execute(const TimedCode& code, const EngineOptions& options) {
  if (options.keep_journal) return Engine<true>(code, options).run();
  return Engine<false>(code, options).run();
}

}  // namespace pipewright
