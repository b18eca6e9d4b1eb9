// How long layers take inside a worker's actions, and how much memory: what the
// profiler looks at, and nobody else. A worker without one reads no clock per
// layer.

#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"

namespace pipewright {

class LayerStopwatch {
 public:
  // Written by a device's clock; see WorkerDevice::stamp().
  struct Interval {
    Seconds start, end;
  };
  enum class Part {
    Forward,
    BackwardInput,
    BackwardWeight
  };

  explicit LayerStopwatch(int num_layers) {
    for (auto& part : intervals_)
      part.resize(static_cast<std::size_t>(num_layers));
    for (auto& part : workspaces_)
      part.resize(static_cast<std::size_t>(num_layers));
    carried_.resize(static_cast<std::size_t>(num_layers));
  }

  // One more, to be written until the run has ended. Layers of different
  // workers at once.
  Interval& add(Part part, LayerId layer) {
    return intervals_[static_cast<std::size_t>(part)][layer.index()]
        .emplace_back();
  }
  std::vector<Seconds> samples(Part part, LayerId layer) const {
    std::vector<Seconds> samples;
    for (const Interval& interval : of(part, layer))
      samples.push_back(interval.end - interval.start);
    return samples;
  }
  std::size_t num_samples(Part part, LayerId layer) const {
    return of(part, layer).size();
  }
  // What it took while it computed, beside what it keeps or returns. The least
  // counts: others may free what they were sent at the same moment.
  void add_workspace(Part part, LayerId layer, Bytes taken) {
    auto& least = workspaces_[static_cast<std::size_t>(part)][layer.index()];
    least = std::min(least.value_or(taken), taken);
  }
  Bytes workspace(LayerId layer) const {
    Bytes most;
    for (const auto& part : workspaces_)
      most = std::max(most, part[layer.index()].value_or(Bytes(0)));
    return most;
  }
  // From one half of backward to the other.
  void set_carried(LayerId layer, Bytes bytes) {
    carried_[layer.index()] = bytes;
  }
  Bytes carried(LayerId layer) const { return carried_[layer.index()]; }
  void clear() {
    for (auto& part : intervals_)
      for (auto& intervals : part) intervals.clear();
  }

 private:
  const std::deque<Interval>& of(Part part, LayerId layer) const {
    return intervals_[static_cast<std::size_t>(part)][layer.index()];
  }

  // By part and layer. Intervals do not move in memory.
  std::array<std::vector<std::deque<Interval>>, 3> intervals_;
  std::array<std::vector<std::optional<Bytes>>, 3> workspaces_;
  std::vector<Bytes> carried_;  // by layer
};

}  // namespace pipewright
