// How long layers take inside a worker's actions, and how much memory: what the
// profiler looks at, and nobody else. A worker without one reads no clock per
// layer.

#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
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
    for (auto& part : workspaces_)
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
  void clear() {
    for (auto& part : samples_)
      for (auto& samples : part) samples.clear();
  }

 private:
  // By part and layer.
  std::array<std::vector<std::vector<Seconds>>, 3> samples_;
  std::array<std::vector<std::optional<Bytes>>, 3> workspaces_;
};

}  // namespace pipewright
