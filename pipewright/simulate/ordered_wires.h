// Wires whose next transfer depends on what else wants them: several kinds in
// one direction, both directions of a half-duplex pair, shared resources.
//
// They decide in the order of time. Rules, in full:
//   - A free wire starts, of the transfers that want it, the one of the highest
//     kind; of one kind the one that has wanted it longest; of two that came
//     together the one of the lower channel.
//   - Wires that become free or wanted at one moment decide together, after all
//     that happens at that moment without them.
//   - Transfers on their wires divide shared resources fairly (fair_share.h).

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "pipewright/simulate/fair_share.h"
#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// One message of a transfer on its way.
struct Message {
  std::int32_t transfer = 0;
  std::int32_t key = 0;
  double sent = 0;   // when the sender handed it over
  double start = 0;  // of occupying the wire (wanting it, until then)
  double off_wire = 0;
  double arrival = 0;
};

class OrderedWires {
 public:
  explicit OrderedWires(const TimedCode& code);

  // The message wants its wire from `message.start` on. Not before the last
  // round, nor before an earlier message of the channel.
  void want(const Message& message);

  // Completes or starts what comes next in time, and appends every message
  // whose arrival is now known. False when nothing is waiting or on its way.
  bool next_round(std::vector<Message>& arrived);

 private:
  struct Active {  // on a wire that shares resources
    Message message;
    Flow flow;
    double left = 0;  // bytes, at `since`
    double since = 0;
    double end() const;
  };
  // First in, first out; its memory is kept.
  class Queue {
   public:
    bool empty() const { return first_ == messages_.size(); }
    bool has_one() const { return first_ + 1 == messages_.size(); }
    const Message& front() const { return messages_[first_]; }
    void push(const Message& message) {
      if (first_ > 16 && 2 * first_ > messages_.size()) {
        messages_.erase(
            messages_.begin(),
            messages_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
      }
      messages_.push_back(message);
    }
    void pop() {
      if (++first_ < messages_.size()) return;
      messages_.clear();
      first_ = 0;
    }

   private:
    std::vector<Message> messages_;
    std::size_t first_ = 0;
  };
  struct State {
    double free_at = 0;
    bool is_deciding = false;
    std::vector<Queue> waiting;  // per channel of the wire
    std::optional<Active> active;
  };
  using Turn = std::pair<double, std::int32_t>;  // when, which wire

  std::optional<double> wanted_at(std::int32_t wire) const;
  void queue_turn(std::int32_t wire);
  void drop_stale_turns();
  double next_completion() const;
  void complete_at(double time, std::vector<Message>& arrived);
  void start_at(double time, std::vector<Message>& arrived);
  Message take(std::int32_t wire, double time);
  void start(std::int32_t wire, Message message, std::vector<Message>& arrived);
  void share_again(double time);

  const TimedCode& code_;
  std::vector<State> wires_;
  std::vector<std::int32_t> place_in_wire_;  // per channel
  std::vector<std::int32_t> sharing_;        // wires with an active message
  std::vector<std::int32_t> deciding_;       // wires, in one round
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
};

}  // namespace pipewright
