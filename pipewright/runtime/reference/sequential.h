// Training with no pipeline at all: every microbatch forward and backward
// through the whole model, gradients added up, one step per minibatch. The
// measure of what a synchronous program must give, bit for bit; it knows no
// plan, no program and no worker.

#pragma once

#include "pipewright/runtime/training/score.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright {

struct MinibatchShape {
  int num_microbatches = 1;
  int microbatch = 1;  // samples
};

Trained train_sequentially(const Model& model, const TrainingSettings& settings,
                           const MicrobatchSource& source,
                           const MinibatchShape& shape, int minibatches);

// Forward through the whole model, microbatch after microbatch, as evaluation
// does it; `samples` of them count.
Score evaluate_sequentially(const Model& model, const Trained& trained,
                            const MicrobatchSource& source, int microbatch,
                            std::int64_t samples);

}  // namespace pipewright
