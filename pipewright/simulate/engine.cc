#include "pipewright/simulate/engine.h"

#include <algorithm>
#include <limits>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/simulate/ordered_wires.h"
#include "pipewright/simulate/recorder.h"

namespace pipewright {
namespace {

enum : std::int32_t {
  kPrologue,
  kBody,
  kEpilogue
};
constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::min();

// What is known of one message or reduction.
struct Slot {
  double time = 0;  // it is there
  double sent = 0;
  std::int32_t key = kNoKey;
  std::int32_t reads_left = 0;
};

struct Pending {
  double time;
  std::int32_t transfer, key;
};

// Sends without their receives, or receives without their sends: a queue in a
// ring that grows when it must.
class PendingQueue {
 public:
  bool empty() const { return head_ == tail_; }
  void push(const Pending& pending) {
    if (tail_ - head_ == ring_.size()) grow();
    ring_[tail_++ & (ring_.size() - 1)] = pending;
  }
  Pending pop() { return ring_[head_++ & (ring_.size() - 1)]; }

 private:
  void grow() {
    std::vector<Pending> larger(std::max<std::size_t>(8, 2 * ring_.size()));
    for (std::size_t i = head_; i != tail_; ++i)
      larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
    ring_.swap(larger);
  }
  std::vector<Pending> ring_;
  std::size_t head_ = 0, tail_ = 0;
};

struct ChannelState {
  double ready = 0;  // the next transfer starts no earlier
  PendingQueue pending;
  bool pending_are_sends = false;
  bool is_direct = true;
};

struct WorkerState {
  double clock = 0;
  double busy = 0;
  double waiting_for_link = 0;
  std::int32_t base[2] = {0, 0};  // by KeyBase
  std::int32_t next_op = 0;
  std::int32_t section = 0;  // kPrologue, kBody, kEpilogue
  std::int32_t repetition = 0;
  std::int32_t parked_slot = -1, parked_key = 0;  // -1: not parked
  bool is_done = false;
};

struct ReductionState {
  std::int32_t key = kNoKey;
  std::int32_t parts = 0;
  double time = 0;
};

// kRecords: spans or memory are wanted. Planners ask for neither, thousands of
// times, and should not pay for it.
template <bool kRecords>
class Engine {
 public:
  Engine(const TimedCode& code, const EngineOptions& options)
      : code_(code),
        options_(options),
        recorder_(code, options.keep_spans, options.track_memory),
        wires_(code),
        slots_(at(code.num_slots)),
        reductions_(at(code.num_slots)),
        channels_(code.channels.size()),
        workers_(code.workers.size()) {
    result_.messages.resize(code.transfers.size());
    result_.repetition_ends.resize(code.workers.size());
    result_.seconds_on_wire.resize(code.transfers.size());
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

  std::size_t worker_number(const WorkerState& worker) const {
    return static_cast<std::size_t>(&worker - workers_.data());
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
      if (options_.keep_repetition_ends)
        result_.repetition_ends[worker_number(worker)].push_back(worker.clock);
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
        hand_over(w, worker, op, true);
        worker.clock += op.seconds;
        break;
      case OpCode::Receive:
        hand_over(w, worker, op, false);
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
    if (op.first_need != op.end_need && !find_start(w, worker, op, start))
      return false;
    const double end = start + op.seconds;
    worker.clock = end;
    worker.busy += op.seconds;
    num_ops_ += op.num_actions;
    if constexpr (kRecords) record_work(w, worker, op, start, end);
    return true;
  }

  // False, and the worker is parked, if something it needs is not known.
  bool find_start(std::int32_t w, WorkerState& worker, const Op& op,
                  double& start) {
    const bool blocking = code_.workers[at(w)].blocking;
    double there = 0, sent = 0, receiving = 0;
    bool is_transfer = false;
    for (std::int32_t n = op.first_need; n < op.end_need; ++n) {
      const Need& need = code_.needs[at(n)];
      const std::int32_t key =
          need.key + worker.base[static_cast<int>(need.base)];
      if (need.from_start && key <= 0) continue;
      const std::int32_t place = need.ring + (key & need.mask);
      const Slot& slot = slots_[at(place)];
      if (slot.key != key) {
        worker.parked_slot = place;
        worker.parked_key = key;
        return false;
      }
      if (blocking && need.transfer >= 0) receiving += need.blocks;
      if (slot.time > there) {
        there = slot.time;
        sent = slot.sent;
        is_transfer = need.transfer >= 0;
      }
    }
    start = std::max(start + receiving, there);
    if (is_transfer && there > worker.clock)
      worker.waiting_for_link += there - std::max(worker.clock, sent);
    return true;
  }

  void record_work(std::int32_t w, const WorkerState& worker, const Op& op,
                   double start, double end) {
    recorder_.start_work(w, op, worker.base, start, end);
    for (std::int32_t n = op.first_need; n < op.end_need; ++n) {
      const Need& need = code_.needs[at(n)];
      const std::int32_t key =
          need.key + worker.base[static_cast<int>(need.base)];
      if (need.transfer < 0 || (need.from_start && key <= 0)) continue;
      if (--slots_[at(need.ring + (key & need.mask))].reads_left == 0)
        recorder_.use_up(w, need.transfer, end);
    }
    recorder_.end_work(w, op, end);
  }

  // The second of send and receive makes the transfer ready.
  void hand_over(std::int32_t w, WorkerState& worker, const Op& op,
                 bool is_send) {
    const std::int32_t key = op.key + worker.base[static_cast<int>(op.base)];
    if constexpr (kRecords)
      if (is_send) recorder_.send(w, op.target, worker.clock);
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
    Message message{op.target, key, is_send ? worker.clock : other.time};
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
    const std::int32_t place = timed.ring + (message.key & timed.mask);
    slots_[at(place)] = {message.arrival, message.sent, message.key,
                         timed.reads};
    latest_ = std::max(latest_, message.arrival);
    ++result_.messages[at(message.transfer)];
    result_.seconds_on_wire[at(message.transfer)] +=
        message.off_wire - message.start;
    if constexpr (kRecords) recorder_.transfer(message);
    unpark(code_.channels[at(timed.channel)].to, place, message.key);
  }

  void unpark(std::int32_t w, std::int32_t place, std::int32_t key) {
    WorkerState& worker = workers_[at(w)];
    if (worker.parked_slot != place || worker.parked_key != key) return;
    worker.parked_slot = -1;
    runnable_.push_back(w);
  }

  void reduce(WorkerState& worker, const Op& op) {
    const TimedReduction& timed = code_.reductions[at(op.target)];
    const std::int32_t key = op.key + worker.base[1];
    const std::int32_t place = timed.ring + (key & timed.mask);
    ReductionState& state = reductions_[at(place)];
    if (state.key != key) state = {key, 0, 0};
    state.time = std::max(state.time, worker.clock);
    if (++state.parts < timed.parts) return;
    // Whoever hands in a part of this one has done so for those before it.
    for (std::int32_t r : timed.after) {
      const TimedReduction& before = code_.reductions[at(r)];
      const Slot& done = slots_[at(before.ring + (key & before.mask))];
      state.time = std::max(state.time, done.time);
    }
    const double end = state.time + timed.seconds;
    slots_[at(place)] = {end, state.time, key, 0};
    latest_ = std::max(latest_, end);
    if constexpr (kRecords) recorder_.reduce(op.target, key, state.time, end);
    for (std::size_t w = 0; w < workers_.size(); ++w)
      unpark(static_cast<std::int32_t>(w), place, key);
  }

  Execution summary() {
    result_.num_ops = num_ops_;
    result_.duration = latest_;
    for (const WorkerState& worker : workers_) {
      result_.duration = std::max(result_.duration, worker.clock);
      result_.workers.push_back({worker.busy, worker.waiting_for_link});
    }
    if constexpr (kRecords) {
      result_.spans = recorder_.spans();
      result_.memory = recorder_.memory();
    }
    return std::move(result_);
  }

  const TimedCode& code_;
  const EngineOptions options_;
  Recorder recorder_;
  OrderedWires wires_;
  std::vector<Slot> slots_;
  std::vector<ReductionState> reductions_;
  std::vector<ChannelState> channels_;
  std::vector<WorkerState> workers_;
  std::vector<std::int32_t> runnable_, running_;
  std::vector<Message> arrived_;
  double latest_ = 0;
  std::int64_t num_ops_ = 0;
  Execution result_;
};

}  // namespace

Execution execute(const TimedCode& code, const EngineOptions& options) {
  if (options.keep_spans || options.track_memory)
    return Engine<true>(code, options).run();
  return Engine<false>(code, options).run();
}

}  // namespace pipewright
