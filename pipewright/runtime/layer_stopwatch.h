// How long layers take inside a worker's actions: what the profiler looks at,
// and nobody else. A worker without one reads no clock per layer.

#pragma once

#include <array>
#include <chrono>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"

namespace pipewright {

class LayerStopwatch {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Part {
    Forward,
    BackwardInput,
    BackwardWeight
  };

  explicit LayerStopwatch(int num_layers) {
    for (auto& part : samples_)
      part.resize(static_cast<std::size_t>(num_layers));
  }

  // Layers of different workers at once.
  void add(Part part, LayerId layer, Clock::duration time) {
    samples_[static_cast<std::size_t>(part)][layer.index()].push_back(
        Seconds(std::chrono::duration<double>(time).count()));
  }
  const std::vector<Seconds>& samples(Part part, LayerId layer) const {
    return samples_[static_cast<std::size_t>(part)][layer.index()];
  }
  void clear() {
    for (auto& part : samples_)
      for (auto& samples : part) samples.clear();
  }

 private:
  std::array<std::vector<std::vector<Seconds>>, 3> samples_;  // part, layer
};

}  // namespace pipewright
