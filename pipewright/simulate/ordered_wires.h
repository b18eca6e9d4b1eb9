// Wires whose next transfer depends on what else wants them: several kinds in
// one direction, both directions of a half-duplex pair, shared resources.
//
// They decide in the order of time. Rules, in full:
//   - A free wire starts, of the transfers that want it, the one of the highest
//     kind; of one kind the one that has wanted it longest; of two that came
//     together the one of the lower channel.
//   - Wires that become free or wanted at one moment decide together, after all
//     that happens at that moment without them.
//   - Transfers and reductions on their wires divide what they share fairly
//     (fair_share.h).
//
// Where nothing is shared, nobody can want a wire sooner after a decision than
// the shortest transfer takes; so all that falls into that time is decided in
// one round, each wire for itself.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "pipewright/simulate/fair_share.h"
#include "pipewright/simulate/timed_code.h"

namespace pipewright {

// One message of a transfer on its way, or one minibatch of a reduction.
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
  // `all`: also those are asked that need not be.
  OrderedWires(const TimedCode& code, bool all);

  // The message wants its wire from `message.start` on. Not before the last
  // round, nor before an earlier message of the channel.
  void want(const Message& message);

  // Completes or starts what comes next in time, and appends every message
  // whose arrival is now known. False when nothing is waiting or on its way.
  bool next_round(std::vector<Message>& arrived);

 private:
  struct Active {  // on a wire that shares
    Message message;
    double rate = 0;
    double left = 0;  // bytes, at `since`
    double since = 0;
    double end = 0;
  };
  struct Waiting {
    double start, sent;
    std::int32_t transfer, key;
  };
  // First in, first out; its memory is kept.
  class Queue {
   public:
    bool empty() const { return first_ == messages_.size(); }
    bool has_one() const { return first_ + 1 == messages_.size(); }
    const Waiting& front() const { return messages_[first_]; }
    const Waiting* begin() const { return messages_.data() + first_; }
    const Waiting* end() const { return messages_.data() + messages_.size(); }
    void push(const Waiting& message) {
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
    std::vector<Waiting> messages_;
    std::size_t first_ = 0;
  };
  // A channel of a wire, those of the highest kind first.
  struct Claimant {
    TransferKind kind;
    std::int32_t channel = 0;
    Queue waiting;
  };
  struct State {
    std::int32_t first_claimant = 0, end_claimant = 0;
    double free_at = 0;
  };

  double next_turn() const;
  void queue_turn(std::int32_t wire);
  void complete_at(double time, std::vector<Message>& arrived);
  void start_all(double from, double until, std::vector<Message>& arrived);
  Message take(std::int32_t wire, double time);
  void start(std::int32_t wire, Message message, std::vector<Message>& arrived);
  void share_again(double time);
  double end_of(const Active& active) const;

  const TimedCode& code_;
  double lookahead_ = 0;
  // When each wire can next start something, as far as is known; infinity if
  // nothing waits, or if it is occupied until nobody knows when.
  std::vector<double> turns_;
  std::vector<State> wires_;
  std::vector<Claimant> claimants_;            // those of a wire together
  std::vector<std::int32_t> claimant_of_;      // per channel
  std::vector<std::optional<Active>> active_;  // per wire
  std::vector<std::int32_t> sharing_;          // wires with an active message
  FairShares shares_;                          // of wires
};

}  // namespace pipewright
