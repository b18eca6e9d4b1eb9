#include "pipewright/simulate/history/memory_history.h"

#include <algorithm>

#include "pipewright/simulate/history/messages_by_time.h"
#include "pipewright/simulate/history/replay.h"

namespace pipewright {

namespace {

using Event = MessagesByTime::Event;

}  // namespace

// Follows one worker's memory. Of changes at the same time, buffers of sent
// messages are freed first, then come the worker's own changes in program
// order, then received messages.
class MemoryHistories::Tracker {
 public:
  Tracker(const std::vector<TransferMemory>& transfers,
          MessagesByTime& messages, Bytes constant, bool keep_points)
      : transfers_(transfers),
        messages_(messages),
        constant_(constant.value()),
        keep_points_(keep_points) {
    if (keep_points_) history_.points.push_back({Seconds(0), constant});
  }

  void reserve(std::size_t num_changes) {
    if (keep_points_) history_.points.reserve(num_changes + 1);
  }

  // By the worker itself.
  void change(double time, std::int64_t activations, std::int64_t buffers) {
    if (activations == 0 && buffers == 0) return;
    while (!messages_.empty() && comes_first(messages_.front(), time))
      add_message();
    apply(time, activations, buffers);
  }

  MemoryHistory end() {
    while (!messages_.empty()) add_message();
    return std::move(history_);
  }

 private:
  static bool comes_first(const MessagesByTime::Head& head, double own) {
    return head.time < own ||
           (head.time == own && head.event == Event::Arrival);
  }

  void add_message() {
    const MessagesByTime::Head& head = messages_.front();
    const TransferMemory& memory = transfers_[head.message->transfer];
    const std::int64_t bytes = head.event == Event::Arrival
                                   ? -memory.freed_by_sender
                                   : memory.received;
    if (bytes != 0) apply(head.time, 0, bytes);
    messages_.pop();
  }

  void apply(double time, std::int64_t activations, std::int64_t buffers) {
    activations_ += activations;
    buffers_ += buffers;
    const std::int64_t now = activations_ + buffers_;
    if (now > highest_) {
      highest_ = now;
      history_.activations = Bytes(activations_);
      history_.buffers = Bytes(buffers_);
      history_.peak_at = Seconds(time);
    }
    if (!keep_points_) return;
    const Bytes held = Bytes(now) + Bytes(constant_);
    MemoryPoint& last = history_.points.back();
    if (last.time == Seconds(time))
      last.bytes = held, last.buffers = Bytes(buffers_);
    else
      history_.points.push_back({Seconds(time), held, Bytes(buffers_)});
  }

  const std::vector<TransferMemory>& transfers_;
  MessagesByTime& messages_;
  const std::int64_t constant_;
  const bool keep_points_;
  std::int64_t activations_ = 0, buffers_ = 0, highest_ = 0;
  MemoryHistory history_;
};

// Weights replace a version that is held anyway.
MemoryHistories::MemoryHistories(const TimedCode& code, const Journal& journal)
    : code_(code),
      journal_(journal),
      is_sent_(code.network.channels.size(), false),
      is_received_(code.network.channels.size(), false) {
  bool all_have_one_reader = true;
  for (std::size_t t = 0; t < code.program->transfers.size(); ++t) {
    const Transfer& transfer = code.program->transfers[t];
    const bool is_weights = transfer.is_keyed_by_version();
    transfers_.push_back(
        {transfer.freed_by_sender.value(),
         is_weights ? 0 : transfer.bytes.value(),
         is_weights ? 0 : transfer.retained_by_reader.value()});
    const std::int32_t channel = code.network.transfers[t].channel;
    if (transfers_[t].freed_by_sender != 0) is_sent_[channel] = true;
    if (transfers_[t].received != 0) is_received_[channel] = true;
    all_have_one_reader = all_have_one_reader && code.num_readers[t] == 1;
  }
  if (!all_have_one_reader) readers_.resize(code.num_slots, {0, 0});
}

// Only the receiver reads a message, so its own order decides who is the last.
bool MemoryHistories::is_last_read(std::int32_t transfer, std::int32_t key) {
  const std::int32_t num_readers = code_.num_readers[transfer];
  if (num_readers == 1) return true;
  Readers& readers = readers_[code_.slots[transfer].slot(key)];
  if (readers.left <= 0 || readers.key != key) readers = {key, num_readers};
  return --readers.left == 0;
}

MemoryHistory MemoryHistories::of_worker(WorkerId worker, Bytes constant,
                                         bool keep_points) {
  MessagesByTime messages;
  std::size_t num_changes = 2 * journal_.starts[worker.index()].size();
  for (std::size_t c = 0; c < code_.network.channels.size(); ++c) {
    const TimedChannel& channel = code_.network.channels[c];
    const bool sends = channel.from == worker && is_sent_[c];
    const bool receives = channel.to == worker && is_received_[c];
    if (sends) messages.add(journal_.messages[c], Event::Arrival);
    if (receives) messages.add(journal_.messages[c], Event::Start);
    // What is sent also turns into a buffer.
    num_changes += journal_.messages[c].size() * ((sends ? 2 : 0) + receives);
  }
  messages.sort();
  Tracker tracker(transfers_, messages, constant, keep_points);
  tracker.reserve(num_changes);
  const auto on_work = [&](const ReplayPoint& point, const Op& op, double start,
                           double end) {
    const OpCost& cost = code_.op_costs[op.cost];
    tracker.change(start, cost.allocates, 0);
    for (std::int32_t n = op.first_need(); n < op.end_need(); ++n) {
      const Need& need = code_.needs[n];
      const std::int32_t key = point.key(need.key, need.base);
      if (need.transfer >= code_.network.first_reduction ||
          key <= need.available_until)
        continue;
      if (!is_last_read(need.transfer, key)) continue;
      const TransferMemory& memory = transfers_[need.transfer];
      tracker.change(end, memory.retained, -memory.received);
    }
    tracker.change(end, -cost.frees, 0);
  };
  const auto on_send = [&](const ReplayPoint&, const Op& op, double time) {
    const std::int64_t bytes = transfers_[op.target].freed_by_sender;
    tracker.change(time, -bytes, bytes);
  };
  replay(code_, journal_, worker.index(), on_work, on_send);
  return tracker.end();
}

}  // namespace pipewright
