// What layers of one worker have counted over the microbatches that they have
// seen (the means and variances of a batch-norm), and the same as it was before
// the minibatch in progress: one that fails leaves no trace in them.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/network.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

class LayerStatistics {
 public:
  using ByLayer = std::map<LayerId, Tensors>;

  // Of the layers that the worker runs forward.
  LayerStatistics(const Network& network, const Program& program,
                  WorkerId worker);

  // A run begins with these, by LayerId.
  void restart(const std::vector<Tensors>& first, WorkerDevice& device);
  // A forward of that minibatch begins.
  void begin(std::int32_t minibatch);
  // Null if the layer has none.
  Tensors* of(LayerId layer);

  const ByLayer& now() const { return now_; }
  // As they were before that minibatch of the run.
  const ByLayer& before(std::int32_t minibatch) const {
    return minibatch == minibatch_ ? before_ : now_;
  }
  std::vector<const void*> addresses() const;

 private:
  ByLayer now_;
  ByLayer before_;  // the minibatch in progress
  std::int32_t minibatch_ = -1;
};

}  // namespace pipewright
