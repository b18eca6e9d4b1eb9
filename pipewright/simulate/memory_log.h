// What a worker's memory holds over time, from streams of changes: its own, and
// those that transfers in each of its channels cause. The worklist executes
// workers one after the other, so streams run ahead of each other, but each is
// told in the order of time, or almost; merging them takes no sort.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

class MemoryLog {
 public:
  // Of changes at the same moment, releases by others come first, then the
  // worker's own in program order, then arrivals.
  enum class Order : std::uint8_t {
    Release,
    Own,
    Arrival
  };

  int add_stream(Order order);
  void reserve(int stream, std::size_t changes) {
    streams_[static_cast<std::size_t>(stream)].changes.reserve(changes);
  }

  // Of changes of a stream at one moment that all free, or all allocate, only
  // the sum is kept: nothing in between can be the peak.
  void change(int stream, double time, std::int64_t activations,
              std::int64_t buffers) {
    if (activations == 0 && buffers == 0) return;
    Stream& into = streams_[static_cast<std::size_t>(stream)];
    if (!into.changes.empty()) {
      Change& last = into.changes.back();
      const bool grew = last.activations + last.buffers > 0;
      if (last.time == time && grew == (activations + buffers > 0)) {
        last.activations += activations;
        last.buffers += buffers;
        return;
      }
      into.is_sorted = into.is_sorted && last.time <= time;
    }
    into.changes.push_back({time, activations, buffers});
  }

  struct Peak {
    Bytes activations, buffers;
    Seconds at;
  };
  Peak peak();
  // `constant` is held all the time.
  std::vector<MemoryPoint> points(Bytes constant);

 private:
  struct Change {
    double time;
    std::int64_t activations, buffers;
  };
  struct Stream {
    std::vector<Change> changes;
    Order order;
    bool is_sorted = true;
  };
  void sort();
  template <typename Visit>
  void merge(Visit visit);

  std::vector<Stream> streams_;
};

}  // namespace pipewright
