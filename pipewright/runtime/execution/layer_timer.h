// Tells a stopwatch, if there is one, what happens between construction and
// destruction: the profiler's view into a worker.

#pragma once

#include <optional>

#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/layer_stopwatch.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// How long a layer took on the worker's device.
class LayerTimer {
 public:
  LayerTimer(LayerStopwatch* stopwatch, LayerStopwatch::Part part,
             LayerId layer, WorkerDevice& device)
      : interval_(stopwatch ? &stopwatch->add(part, layer) : nullptr),
        device_(device) {
    if (interval_) device_.stamp(interval_->start);
  }
  ~LayerTimer() {
    if (interval_) device_.stamp(interval_->end);
  }
  LayerTimer(const LayerTimer&) = delete;
  LayerTimer& operator=(const LayerTimer&) = delete;

 private:
  LayerStopwatch::Interval* interval_;
  WorkerDevice& device_;
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
              LayerId layer, const Tensors* carried, WorkerDevice& device)
      : stopwatch_(stopwatch), part_(part), layer_(layer), carried_(carried) {
    if (stopwatch_) memory_.emplace(device);
  }
  ~LayerMemory() {
    if (!stopwatch_) return;
    stopwatch_->add_workspace(part_, layer_, memory_->taken());
    if (carried_) stopwatch_->set_carried(layer_, size_of(*carried_));
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
