#include "pipewright/simulate/memory_history.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/simulate/message_streams.h"
#include "pipewright/simulate/replay.h"

namespace pipewright {

using Moment = MessageStreams::Moment;

// Follows one worker's memory. Of changes at the same moment, releases by
// others come first, then the worker's own in program order, then arrivals.
class MemoryHistories::Course {
 public:
  Course(const std::vector<TransferMemory>& transfers, MessageStreams& messages,
         Bytes constant, bool keep_points)
      : transfers_(transfers),
        messages_(messages),
        constant_(constant.value()),
        keep_points_(keep_points) {
    if (keep_points_) history_.points.push_back({Seconds(0), constant});
  }

  void reserve(std::size_t points) {
    if (keep_points_) history_.points.reserve(points + 1);
  }

  // By the worker itself.
  void change(double time, std::int64_t activations, std::int64_t buffers) {
    if (activations == 0 && buffers == 0) return;
    while (!messages_.empty() && comes_first(messages_.front(), time))
      take_message();
    apply(time, activations, buffers);
  }

  MemoryHistory end() {
    while (!messages_.empty()) take_message();
    return std::move(history_);
  }

 private:
  static bool comes_first(const MessageStreams::Head& head, double own) {
    return head.time < own ||
           (head.time == own && head.moment == Moment::Arrival);
  }

  void take_message() {
    const MessageStreams::Head& head = messages_.front();
    const TransferMemory& what = transfers_[at(head.message->transfer)];
    const std::int64_t bytes =
        head.moment == Moment::Arrival ? -what.freed_by_sender : what.arrives;
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
      last.bytes = held;
    else
      history_.points.push_back({Seconds(time), held});
  }

  const std::vector<TransferMemory>& transfers_;
  MessageStreams& messages_;
  const std::int64_t constant_;
  const bool keep_points_;
  std::int64_t activations_ = 0, buffers_ = 0, highest_ = 0;
  MemoryHistory history_;
};

// Weights arrive in the place of a version that is held anyway.
MemoryHistories::MemoryHistories(const TimedCode& code, const Journal& journal)
    : code_(code),
      journal_(journal),
      leaves_(code.channels.size(), false),
      arrives_(code.channels.size(), false) {
  bool all_have_one = true;
  for (std::size_t t = 0; t < code.program->transfers.size(); ++t) {
    const Transfer& what = code.program->transfers[t];
    const bool is_weights = what.is_keyed_by_version();
    transfers_.push_back({what.freed_by_sender.value(),
                          is_weights ? 0 : what.bytes.value(),
                          is_weights ? 0 : what.retained_by_reader.value()});
    const std::size_t channel = at(code.transfers[t].channel);
    if (transfers_[t].freed_by_sender != 0) leaves_[channel] = true;
    if (transfers_[t].arrives != 0) arrives_[channel] = true;
    all_have_one = all_have_one && code.transfers[t].reads == 1;
  }
  if (!all_have_one) readers_.assign(at(code.num_slots), {0, 0});
}

// Only the receiver reads a message, so its own order tells who is the last.
bool MemoryHistories::is_used_up(std::int32_t transfer, std::int32_t key) {
  const TimedTransfer& timed = code_.transfers[at(transfer)];
  if (timed.reads == 1) return true;
  Readers& readers = readers_[at(timed.ring + (key & timed.mask))];
  if (readers.left <= 0 || readers.key != key) readers = {key, timed.reads};
  return --readers.left == 0;
}

MemoryHistory MemoryHistories::of_worker(std::size_t w, Bytes constant,
                                         bool keep_points) {
  MessageStreams messages;
  std::size_t changes = 2 * journal_.starts[w].size();
  const auto number = static_cast<std::int32_t>(w);
  for (std::size_t c = 0; c < code_.channels.size(); ++c) {
    const TimedChannel& channel = code_.channels[c];
    const bool leaves = channel.from == number && leaves_[c];
    const bool arrives = channel.to == number && arrives_[c];
    if (leaves) messages.add(journal_.messages[c], Moment::Arrival);
    if (arrives) messages.add(journal_.messages[c], Moment::Start);
    // What leaves also turns into a buffer.
    changes += journal_.messages[c].size() * ((leaves ? 2 : 0) + arrives);
  }
  messages.sort();
  Course course(transfers_, messages, constant, keep_points);
  course.reserve(changes);
  const auto work = [&](const Turn& turn, const Op& op, double start,
                        double end) {
    const OpCost& cost = code_.op_costs[at(op.cost)];
    course.change(start, cost.allocates, 0);
    for (std::int32_t n = op.first_need(); n < op.end_need(); ++n) {
      const Need& need = code_.needs[at(n)];
      const std::int32_t key =
          need.key + turn.base[static_cast<int>(need.base)];
      if (need.transfer >= code_.first_reduction || key <= need.there_until)
        continue;
      if (!is_used_up(need.transfer, key)) continue;
      const TransferMemory& what = transfers_[at(need.transfer)];
      course.change(end, what.retained, -what.arrives);
    }
    course.change(end, -cost.frees, 0);
  };
  const auto send = [&](const Turn&, const Op& op, double time) {
    const std::int64_t leaving = transfers_[at(op.target)].freed_by_sender;
    course.change(time, -leaving, leaving);
  };
  replay(code_, journal_, w, work, send);
  return course.end();
}

}  // namespace pipewright
