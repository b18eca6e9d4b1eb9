// Tells a stopwatch, if there is one, what happens between construction and
// destruction: the profiler's view into a worker.

#pragma once

#include <optional>

#include "pipewright/runtime/execution/layer_stopwatch.h"
#include "pipewright/runtime/execution/tensor_heap.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// How long a layer took.
class LayerTimer {
 public:
  LayerTimer(LayerStopwatch* stopwatch, LayerStopwatch::Part part,
             LayerId layer)
      : stopwatch_(stopwatch), part_(part), layer_(layer) {
    if (stopwatch_) start_ = LayerStopwatch::Clock::now();
  }
  ~LayerTimer() {
    if (stopwatch_)
      stopwatch_->add(part_, layer_, LayerStopwatch::Clock::now() - start_);
  }
  LayerTimer(const LayerTimer&) = delete;
  LayerTimer& operator=(const LayerTimer&) = delete;

 private:
  LayerStopwatch* stopwatch_;
  LayerStopwatch::Part part_;
  LayerId layer_;
  LayerStopwatch::Clock::time_point start_;
};

inline Bytes size_of(const Tensors& tensors) {
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
  return Bytes(static_cast<std::int64_t>(bytes));
}

// The memory that a layer's function takes only while it runs, and what one
// half of backward carries to the other.
class LayerMemory {
 public:
  LayerMemory(LayerStopwatch* stopwatch, LayerStopwatch::Part part,
              LayerId layer, const Tensors* carried)
      : stopwatch_(stopwatch), part_(part), layer_(layer), carried_(carried) {
    if (stopwatch_) memory_.emplace();
  }
  ~LayerMemory() {
    if (!stopwatch_) return;
    Bytes taken = memory_->taken();
    if (carried_) taken += size_of(*carried_);
    stopwatch_->add_workspace(part_, layer_, taken);
  }
  LayerMemory(const LayerMemory&) = delete;
  LayerMemory& operator=(const LayerMemory&) = delete;

 private:
  LayerStopwatch* stopwatch_;
  LayerStopwatch::Part part_;
  LayerId layer_;
  const Tensors* carried_;
  std::optional<PassingMemory> memory_;
};

}  // namespace pipewright
