// Training with no pipeline at all: every microbatch forward and backward
// through the whole model, gradients added up, one step per minibatch. The
// measure of what a synchronous program must give, bit for bit; it knows no
// plan, no program and no worker.

#pragma once

#include "pipewright/runtime/training.h"

namespace pipewright {

struct MinibatchShape {
  int num_microbatches = 1;
  int microbatch = 1;  // samples
};

Trained train_sequentially(const Model& model, const TrainingSettings& settings,
                           const MicrobatchSource& source,
                           const MinibatchShape& shape, int minibatches);

}  // namespace pipewright
