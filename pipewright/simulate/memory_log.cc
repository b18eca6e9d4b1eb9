#include "pipewright/simulate/memory_log.h"

#include <algorithm>
#include <tuple>

namespace pipewright {

void MemoryLog::sort() {
  auto before = [](const Change& a, const Change& b) {
    return std::tie(a.time, a.order) < std::tie(b.time, b.order);
  };
  if (!std::is_sorted(changes_.begin(), changes_.end(), before))
    std::stable_sort(changes_.begin(), changes_.end(), before);
}

MemoryLog::Peak MemoryLog::peak() {
  sort();
  std::int64_t activations = 0, buffers = 0, highest = 0;
  Peak peak;
  for (const Change& change : changes_) {
    activations += change.activations;
    buffers += change.buffers;
    if (activations + buffers <= highest) continue;
    highest = activations + buffers;
    peak = {Bytes(activations), Bytes(buffers), Seconds(change.time)};
  }
  return peak;
}

std::vector<MemoryPoint> MemoryLog::points(Bytes constant) {
  sort();
  std::vector<MemoryPoint> points{{Seconds(0), constant}};
  for (const Change& change : changes_) {
    const Bytes now =
        points.back().bytes + Bytes(change.activations + change.buffers);
    if (points.back().time == Seconds(change.time))
      points.back().bytes = now;
    else
      points.push_back({Seconds(change.time), now});
  }
  return points;
}

}  // namespace pipewright
