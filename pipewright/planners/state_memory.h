// Pipelines that cannot fit, known without simulating them: weights, gradients
// and optimizer state of a stage alone take more than one of its devices has.

#pragma once

#include "pipewright/planners/pipeline.h"

namespace pipewright {

// Whether no plan of the pipeline can fit, whatever its schedule, recompute and
// buckets of gradients. False where that is not known.
//
// A stage holds its weights and their optimizer state all the time, and the
// sums of its gradients from its first backward to its step. So with two
// microbatches per device there is a moment at which it holds the sums of all
// its layers. With one, buckets of replicas may be summed and gone one after
// the other, and only the others count. Devices with several stages, and stages
// whose forward and backward differ, are not looked at.
bool states_exceed_memory(const Pipeline& pipeline, const Problem& problem);

}  // namespace pipewright
