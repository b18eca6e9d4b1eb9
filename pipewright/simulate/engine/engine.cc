#include "pipewright/simulate/engine/engine.h"

#include <algorithm>
#include <limits>
#include <map>

#include "pipewright/base/check.h"
#include "pipewright/simulate/links/contended_links.h"
#include "pipewright/simulate/links/fifo.h"

namespace pipewright {
namespace {

constexpr std::int32_t kNoKey = std::numeric_limits<std::int32_t>::min();

// The arrival of one message or reduction.
struct Slot {
  double time = 0;
  double sent = 0;
  std::int32_t key = kNoKey;
};

// A send without its receive, or a receive without its send.
struct Pending {
  double ready;  // the message may start
  double clock;  // of the worker
  std::int32_t transfer, key;
};

struct ChannelState {
  double ready = 0;  // the next message starts no earlier
  Fifo<Pending> pending;
  bool pending_are_sends = false;
  bool is_direct = true;
};

struct WorkerState {
  double clock = 0;
  double started = 0;  // its last work
  double busy = 0;
  double waiting_for_link = 0;
  std::int32_t base[2] = {0, 0};  // by KeyBase
  std::int32_t next_op = 0;
  std::int32_t section = kPrologue;
  std::int32_t repetition = 0;
  std::int32_t awaited_slot = -1, awaited_key = 0;  // -1: it does not wait
  std::int32_t awaited_need = 0;
  bool is_done = false;

  std::int32_t key(std::int32_t from_base, KeyBase which) const {
    return from_base + base[static_cast<int>(which)];
  }
};

// A reduction of one minibatch that has some contributions, but not all.
struct OpenReduction {
  std::int32_t num_contributions = 0;
  double time = 0;  // of the latest
};

// kRecords: a journal is wanted. Planners ask for none, thousands of times, and
// should not pay for it.
template <bool kRecords>
class Engine {
 public:
  Engine(const TimedCode& code, const EngineOptions& options)
      : code_(code),
        network_(code.network),
        repetitions_(options.repetitions),
        contended_(network_, options.in_time_order),
        slots_(code.num_slots),
        open_reductions_(code.num_contributions.size()),
        channels_(network_.channels.size()),
        workers_(code.workers.size()) {
    result_.messages.resize(network_.transfers.size());
    result_.seconds_on_link.resize(network_.transfers.size());
    if constexpr (kRecords) journal_ = Journal(code, repetitions_);
    for (std::size_t c = 0; c < channels_.size(); ++c) {
      const std::int32_t link = network_.channels[c].link;
      channels_[c].is_direct = link < 0 || (network_.links[link].is_direct() &&
                                            !options.in_time_order);
    }
  }

  Execution run() {
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      workers_[w].next_op = code_.workers[w].begin[kPrologue];
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
    if (!contended_.next_round(arrived_)) return false;
    for (const Message& message : arrived_) arrive(message);
    return true;
  }

  // Until it must wait, or one repetition is done.
  void run_worker(std::int32_t w) {
    const std::int32_t* begin = code_.workers[w].begin;
    WorkerState& worker = workers_[w];
    while (true) {
      if (advance_section(worker, begin)) {
        runnable_.push_back(w);
        return;
      }
      const std::int32_t end = begin[worker.section + 1];
      while (worker.next_op != end) {
        if (!run_op(w, worker, code_.ops[worker.next_op])) return;
        ++worker.next_op;
      }
      if (worker.section == kEpilogue) {
        worker.is_done = true;
        return;
      }
    }
  }

  // At the end of a section: on to the next one, or to the body once more, in
  // which case it returns true.
  bool advance_section(WorkerState& worker, const std::int32_t* begin) {
    const std::int32_t repetitions =
        begin[kBody] == begin[kEpilogue] ? 0 : repetitions_;
    if (worker.section == kPrologue && worker.next_op == begin[kBody]) {
      worker.section = repetitions > 0 ? kBody : kEpilogue;
      if (repetitions > 0) return false;
      worker.next_op = begin[kEpilogue];
      set_base(worker, repetitions_);
    } else if (worker.section == kBody && worker.next_op == begin[kEpilogue]) {
      set_base(worker, ++worker.repetition);
      if (worker.repetition == repetitions) {
        worker.section = kEpilogue;
        return false;
      }
      worker.next_op = begin[kBody];
      return true;
    }
    return false;
  }

  void set_base(WorkerState& worker, std::int32_t repetition) {
    worker.base[0] = repetition * code_.program->num_microbatches;
    worker.base[1] = repetition;
  }

  // False if the worker must wait.
  bool run_op(std::int32_t w, WorkerState& worker, const Op& op) {
    switch (op.code) {
      case OpCode::Work:
        return work(w, worker, op);
      case OpCode::Send:
        match(worker, op, true, worker.clock);
        worker.clock += code_.seconds(op);
        break;
      case OpCode::Stream:
        match(worker, op, true, stream_start(worker, op));
        worker.clock += code_.seconds(op);
        break;
      case OpCode::Receive:
        match(worker, op, false, worker.clock);
        break;
      case OpCode::Reduce:
        contribute(op.target, worker.key(op.key, op.base), worker.clock);
        break;
    }
    ++num_actions_;
    return true;
  }

  bool work(std::int32_t w, WorkerState& worker, const Op& op) {
    double start = worker.clock;
    if (op.num_needs > 0 && !find_start(w, worker, op, start)) return false;
    fetch_ahead(worker, op);
    const double seconds = code_.seconds(op);
    worker.started = start;
    worker.clock = start + seconds;
    worker.busy += seconds;
    num_actions_ += op.num_actions;
    if constexpr (kRecords) journal_.starts[w].push_back(start);
    return true;
  }

  // What the worker will need next lies anywhere among the slots; by the time
  // it asks, it has come from memory.
  void fetch_ahead(const WorkerState& worker, const Op& op) const {
    if (slots_.empty()) return;
    const Need& next = code_.needs[op.end_need()];
    __builtin_prefetch(slots_.data() + code_.slots[next.transfer].slot(
                                           worker.key(next.key, next.base)));
  }

  // False, and the worker waits, if the arrival of something it needs is not
  // known.
  bool find_start(std::int32_t w, WorkerState& worker, const Op& op,
                  double& start) {
    const double blocking = code_.workers[w].blocking;
    double latest = 0, sent = 0, receiving = 0;
    std::int32_t last = network_.first_reduction;
    for (std::int32_t n = op.first_need(); n < op.end_need(); ++n) {
      const Need& need = code_.needs[n];
      const std::int32_t key = worker.key(need.key, need.base);
      if (key <= need.available_until) continue;
      const std::int32_t place = code_.slots[need.transfer].slot(key);
      const Slot& slot = slots_[place];
      if (slot.key != key) {
        worker.awaited_slot = place;
        worker.awaited_key = key;
        worker.awaited_need = n;
        return false;
      }
      if (blocking > 0 && need.transfer < network_.first_reduction)
        receiving += blocking * network_.transfers[need.transfer].seconds();
      if (slot.time > latest) {
        latest = slot.time;
        sent = slot.sent;
        last = need.transfer;
      }
    }
    start = std::max(start + receiving, latest);
    if (last < network_.first_reduction && latest > worker.clock)
      worker.waiting_for_link += latest - std::max(worker.clock, sent);
    return true;
  }

  // As late as it can without ending later: what it carries is made evenly
  // over the work, so that no byte is sent before it is made.
  double stream_start(const WorkerState& worker, const Op& op) const {
    return std::max(
        worker.started,
        worker.clock - network_.transfers[op.target].seconds_on_link);
  }

  // The second of a send and its receive starts the message, if both are
  // `ready`. It ends no earlier than the send.
  void match(WorkerState& worker, const Op& op, bool is_send, double ready) {
    const std::int32_t key = worker.key(op.key, op.base);
    ChannelState& channel = channels_[network_.transfers[op.target].channel];
    if (channel.pending.empty() || channel.pending_are_sends == is_send) {
      channel.pending_are_sends = is_send;
      channel.pending.push({ready, worker.clock, op.target, key});
      return;
    }
    const Pending other = channel.pending.pop();
    PIPEWRIGHT_CHECK(other.transfer == op.target && other.key == key,
                     "a receive is not that of its send");
    Message message;
    message.transfer = op.target;
    message.key = key;
    message.sent = is_send ? worker.clock : other.clock;
    message.start = std::max({ready, other.ready, channel.ready});
    carry(channel, message);
  }

  void carry(ChannelState& channel, Message& message) {
    if (!channel.is_direct) {
      channel.ready = message.start;
      contended_.request(message);
      return;
    }
    const TimedTransfer& timed = network_.transfers[message.transfer];
    message.end = end_on_link(message, timed);
    message.arrival = message.end + timed.latency;
    channel.ready = message.end;
    arrive(message);
  }

  void arrive(const Message& message) {
    const std::int32_t channel = network_.transfers[message.transfer].channel;
    const std::int32_t place = code_.slots[message.transfer].slot(message.key);
    slots_[place] = {message.arrival, message.sent, message.key};
    latest_ = std::max(latest_, message.arrival);
    ++result_.messages[message.transfer];
    result_.seconds_on_link[message.transfer] += message.end - message.start;
    if constexpr (kRecords)
      journal_.messages[channel].push_back(
          {message.start, message.arrival, message.transfer, message.key});
    if (message.transfer < network_.first_reduction)
      return wake(network_.channels[channel].to.value, place, message.key);
    for (std::size_t w = 0; w < workers_.size(); ++w)
      wake(static_cast<std::int32_t>(w), place, message.key);
  }

  // If the worker waits for this.
  void wake(std::int32_t w, std::int32_t slot, std::int32_t key) {
    WorkerState& worker = workers_[w];
    if (worker.awaited_slot != slot || worker.awaited_key != key) return;
    worker.awaited_slot = -1;
    __builtin_prefetch(&code_.ops[worker.next_op]);
    __builtin_prefetch(&code_.needs[worker.awaited_need]);
    runnable_.push_back(w);
  }

  // With its last contribution a reduction becomes a message. Those of one
  // reduction follow each other.
  void contribute(std::int32_t reduction, std::int32_t key, double time) {
    const std::int32_t needed = code_.num_contributions[reduction];
    if (needed > 1) {
      auto& open = open_reductions_[reduction];
      OpenReduction& state = open[key];
      state.time = std::max(state.time, time);
      if (++state.num_contributions < needed) return;
      time = state.time;
      open.erase(key);
    }
    Message message;
    message.transfer = network_.first_reduction + reduction;
    message.key = key;
    message.sent = time;
    ChannelState& channel =
        channels_[network_.transfers[message.transfer].channel];
    message.start = std::max(time, channel.ready);
    carry(channel, message);
  }

  Execution summary() {
    result_.num_actions = num_actions_;
    result_.duration = latest_;
    for (const WorkerState& worker : workers_) {
      result_.duration = std::max(result_.duration, worker.clock);
      result_.workers.push_back({worker.busy, worker.waiting_for_link});
    }
    if constexpr (kRecords) result_.journal = std::move(journal_);
    return std::move(result_);
  }

  const TimedCode& code_;
  const TimedNetwork& network_;
  const int repetitions_;
  ContendedLinks contended_;
  std::vector<Slot> slots_;
  std::vector<std::map<std::int32_t, OpenReduction>>
      open_reductions_;  // by key
  std::vector<ChannelState> channels_;
  std::vector<WorkerState> workers_;
  std::vector<std::int32_t> runnable_, running_;
  std::vector<Message> arrived_;
  double latest_ = 0;  // arrival
  std::int64_t num_actions_ = 0;
  Journal journal_;
  Execution result_;
};

}  // namespace

Execution execute(const TimedCode& code, const EngineOptions& options) {
  if (options.keep_journal) return Engine<true>(code, options).run();
  return Engine<false>(code, options).run();
}

}  // namespace pipewright
