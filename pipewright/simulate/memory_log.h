// What a worker's memory holds over time, from changes that come in almost any
// order: the worklist executes workers one after the other, so a change caused
// by another worker may be told late.

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

  void change(double time, Order order, std::int64_t activations,
              std::int64_t buffers) {
    if (activations != 0 || buffers != 0)
      changes_.push_back({time, activations, buffers, order});
  }

  struct Peak {
    Bytes activations, buffers;
    Seconds at;
  };
  // Sorts what was told. `constant` is held all the time.
  Peak peak();
  std::vector<MemoryPoint> points(Bytes constant);

 private:
  struct Change {
    double time;
    std::int64_t activations, buffers;
    Order order;
  };
  void sort();

  std::vector<Change> changes_;
};

}  // namespace pipewright
