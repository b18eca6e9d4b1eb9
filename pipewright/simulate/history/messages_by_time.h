// The messages of several channels in the order of time. Those of one channel
// are in order already, or almost; merging them takes no sort.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "pipewright/simulate/engine/journal.h"

namespace pipewright {

class MessagesByTime {
 public:
  enum class Event : std::uint8_t {
    Arrival,
    Start,
  };
  struct Head {
    double time;
    const CarriedMessage *message, *end;
    Event event;

    // At the same time arrivals come first.
    bool comes_before(const Head& other) const {
      return time != other.time ? time < other.time : event < other.event;
    }
  };

  // Orders these messages by their start or by their arrival. `messages` must
  // outlive this object.
  void add(const std::vector<CarriedMessage>& messages, Event event);
  void sort();  // call it when all are added

  bool empty() const { return first_ == heads_.size(); }
  const Head& front() const { return heads_[first_]; }
  void pop();

 private:
  static double time_of(const CarriedMessage& message, Event event) {
    return event == Event::Arrival ? message.arrival : message.start;
  }

  std::vector<Head> heads_;  // in order; those before first_ are used up
  std::size_t first_ = 0;
  std::deque<std::vector<CarriedMessage>> sorted_;
};

// The head that moved on is put back in its place, which is mostly near.
inline void MessagesByTime::pop() {
  Head head = heads_[first_];
  if (++head.message == head.end) {
    ++first_;
    return;
  }
  head.time = time_of(*head.message, head.event);
  std::size_t place = first_;
  for (; place + 1 < heads_.size() && heads_[place + 1].comes_before(head);
       ++place)
    heads_[place] = heads_[place + 1];
  heads_[place] = head;
}

}  // namespace pipewright
