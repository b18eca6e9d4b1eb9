// Messages of several channels in the order of time. Those of one channel are
// in order already, or almost; merging them takes no sort.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "pipewright/simulate/journal.h"

namespace pipewright {

class MessageStreams {
 public:
  enum class Moment : std::uint8_t {
    Arrival,  // it has reached the other end
    Start,    // it begins to be carried
  };
  struct Head {
    double time;
    const Carried *message, *end;
    Moment moment;

    // At one moment arrivals come first.
    bool comes_before(const Head& other) const {
      return time != other.time ? time < other.time : moment < other.moment;
    }
  };

  // Messages are told by their start or by their arrival. They must stay.
  void add(const std::vector<Carried>& messages, Moment moment);
  void sort();  // when all are added

  bool empty() const { return first_ == heads_.size(); }
  const Head& front() const { return heads_[first_]; }
  void pop();

 private:
  static double time_of(const Carried& message, Moment moment) {
    return moment == Moment::Arrival ? message.arrival : message.start;
  }

  std::vector<Head> heads_;  // in order; those before first_ are used up
  std::size_t first_ = 0;
  std::deque<std::vector<Carried>> sorted_;
};

// The one that moved on is put back in its place, which is mostly near.
inline void MessageStreams::pop() {
  Head head = heads_[first_];
  if (++head.message == head.end) {
    ++first_;
    return;
  }
  head.time = time_of(*head.message, head.moment);
  std::size_t place = first_;
  for (; place + 1 < heads_.size() && heads_[place + 1].comes_before(head);
       ++place)
    heads_[place] = heads_[place + 1];
  heads_[place] = head;
}

}  // namespace pipewright
