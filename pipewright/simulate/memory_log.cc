#include "pipewright/simulate/memory_log.h"

#include <algorithm>

namespace pipewright {

int MemoryLog::add_stream(Order order) {
  streams_.push_back({{}, order, true});
  return static_cast<int>(streams_.size()) - 1;
}

// Only where transfers of one channel differ in latency.
void MemoryLog::sort() {
  for (Stream& stream : streams_) {
    if (stream.is_sorted) continue;
    std::stable_sort(
        stream.changes.begin(), stream.changes.end(),
        [](const Change& a, const Change& b) { return a.time < b.time; });
    stream.is_sorted = true;
  }
}

// Calls visit(change) for all changes in the order of time. The heads of the
// streams are kept in order; the one that moved on is put back in its place,
// which is mostly near.
template <typename Visit>
void MemoryLog::merge(Visit visit) {
  struct Head {
    double time;
    Order order;
    const Change *next, *end;
    bool comes_before(const Head& other) const {
      return time != other.time ? time < other.time : order < other.order;
    }
  };
  sort();
  std::vector<Head> heads;
  for (const Stream& stream : streams_)
    if (!stream.changes.empty())
      heads.push_back({stream.changes.front().time, stream.order,
                       stream.changes.data(),
                       stream.changes.data() + stream.changes.size()});
  std::stable_sort(
      heads.begin(), heads.end(),
      [](const Head& a, const Head& b) { return a.comes_before(b); });
  std::size_t first = 0;  // heads before it are used up
  while (first < heads.size()) {
    Head head = heads[first];
    do {
      visit(*head.next++);
      if (head.next == head.end) break;
      head.time = head.next->time;
    } while (first + 1 == heads.size() || head.comes_before(heads[first + 1]));
    if (head.next == head.end) {
      ++first;
      continue;
    }
    std::size_t place = first;
    for (; place + 1 < heads.size() && heads[place + 1].comes_before(head);
         ++place)
      heads[place] = heads[place + 1];
    heads[place] = head;
  }
}

MemoryLog::Peak MemoryLog::peak() {
  std::int64_t activations = 0, buffers = 0, highest = 0;
  Peak peak;
  merge([&](const Change& change) {
    activations += change.activations;
    buffers += change.buffers;
    if (activations + buffers <= highest) return;
    highest = activations + buffers;
    peak = {Bytes(activations), Bytes(buffers), Seconds(change.time)};
  });
  return peak;
}

std::vector<MemoryPoint> MemoryLog::points(Bytes constant) {
  std::vector<MemoryPoint> points;
  std::size_t changes = 1;
  for (const Stream& stream : streams_) changes += stream.changes.size();
  points.reserve(changes);
  points.push_back({Seconds(0), constant});
  merge([&points](const Change& change) {
    const Bytes now =
        points.back().bytes + Bytes(change.activations + change.buffers);
    if (points.back().time == Seconds(change.time))
      points.back().bytes = now;
    else
      points.push_back({Seconds(change.time), now});
  });
  return points;
}

}  // namespace pipewright
